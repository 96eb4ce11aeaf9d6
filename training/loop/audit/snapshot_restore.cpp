#include "troupe/training/loop/audit/snapshot_restore.hpp"

#include "troupe/actors/core/job_error.hpp"
#include "troupe/training/strategies/calls/host_collectives.hpp"
#include "troupe/training/strategies/replica/text_codec.hpp"

#include <algorithm>

namespace troupe {

namespace {

/// What a process says of its snapshot.
struct remote_snapshot {
  bool is_intact = false;
  std::uint64_t step = 0, hash = 0;
  std::string mark; ///< As `encode_mark`.
};

remote_snapshot describe(const state_snapshot& own,
                         const std::vector<snapshot_mark>& marks) {
  const auto mark =
    std::ranges::find(marks, own.step().value_or(0), &snapshot_mark::steps);
  if (mark == marks.end() || !own.is_intact())
    return {};
  return {true, *own.step(), own.hash(), encode_mark(*mark)};
}

remote_snapshot read_snapshot(const std::string& text) {
  remote_snapshot out;
  if (!decode_text(text, out.is_intact, out.step, out.hash, out.mark))
    throw job_error(ec::protocol, "a worker sent a malformed snapshot");
  if (!out.is_intact)
    return out;
  const auto mark = decode_mark(out.mark);
  if (!mark || mark->steps != out.step)
    throw job_error(ec::protocol, "a worker sent a snapshot of step "
                                    + std::to_string(out.step)
                                    + " with the position of another step");
  return out;
}

} // namespace

std::string encode_mark(const snapshot_mark& mark) {
  return encode_text(mark.steps, mark.totals.examples, mark.totals.sums,
                     mark.totals.seconds);
}

std::optional<snapshot_mark> decode_mark(const std::string& text) {
  snapshot_mark out;
  if (!decode_text(text, out.steps, out.totals.examples, out.totals.sums,
                   out.totals.seconds))
    return {};
  return out;
}

std::optional<snapshot_mark>
restore_newest_snapshot(model_state& model, state_snapshot& own,
                        std::vector<snapshot_mark>& marks) {
  const auto& strategy = model.strategy;
  const auto mine = describe(own, marks);
  const auto texts = gather_text_once(
    strategy, encode_text(mine.is_intact, mine.step, mine.hash, mine.mark));
  std::vector<remote_snapshot> all;
  for (const auto& text : texts)
    all.push_back(read_snapshot(text));
  const remote_snapshot* newest = nullptr;
  for (const auto& x : all)
    if (x.is_intact && (!newest || x.step > newest->step))
      newest = &x;
  if (!newest)
    return {};
  const auto mark = decode_mark(newest->mark);
  const auto lacks_it = [&](const remote_snapshot& x) {
    return !x.is_intact || x.step != newest->step;
  };
  if (std::ranges::any_of(all, lacks_it)) {
    const auto source = static_cast<std::uint32_t>(newest - all.data());
    const auto sender = strategy->placement.job.replicas_of(source).front();
    auto parts = model.state_tensors({}); // have the shapes of a snapshot
    if (mine.is_intact)
      parts = own.tensors();
    for (auto& part : parts)
      part = gather_from(strategy, sender, part.to({})).clone();
    if (lacks_it(mine)) {
      own.take_sent(std::move(parts), newest->step, newest->hash);
      std::erase_if(
        marks, [&](const snapshot_mark& x) { return x.steps == newest->step; });
      marks.push_back(*mark);
    }
  }
  own.restore(model);
  gather_text_once(strategy, {}); // now all processes have restored it
  return mark;
}

} // namespace troupe
