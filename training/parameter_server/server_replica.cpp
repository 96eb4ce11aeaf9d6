#include "troupe/training/parameter_server/server_replica.hpp"

#include "troupe/actors/core/job_error.hpp"
#include "troupe/strategies/parameter_server/row_routing.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>

namespace troupe {

namespace {

tensor numbers_of(std::span<const std::int64_t> xs) {
  return tensor::of<std::int64_t>({std::int64_t(xs.size())}, xs);
}

/// Returns what travels beside the push of each part of a variable.
std::vector<tensors> operands_by_part(const server_variable& of,
                                      const parameter_gradient& gradient) {
  const auto& sharding = of.sharding();
  std::vector<tensors> out(sharding.shards());
  if (!gradient)
    return out;
  if (!gradient.is_sparse()) {
    const auto whole = gradient.dense();
    for (std::uint32_t i = 0; i < out.size(); ++i) {
      const auto rows = sharding.range_of(i);
      out[i] = {out.size() == 1 ? whole : whole.slice(rows.begin, rows.end)};
    }
    return out;
  }
  const auto& rows = gradient.rows();
  if (out.size() == 1) {
    out[0] = {rows.indices(), rows.rows()};
    return out;
  }
  const auto routed = parameter_server::route(
    sharding, of.name(), rows.indices().data<std::int64_t>());
  const auto row_bytes = parameter_server::row_bytes(of.spec());
  for (std::uint32_t i = 0; i < out.size(); ++i) {
    const auto of_part = routed.rows(i);
    tensor values{of.spec().dims.with_extent(0, std::int64_t(of_part.size())),
                  of.spec().type};
    parameter_server::gather_rows({rows.rows().raw(), rows.rows().bytes()},
                                  routed.positions(i), row_bytes,
                                  {values.mutable_address(), values.bytes()});
    out[i] = {numbers_of(of_part), std::move(values)};
  }
  return out;
}

/// Checks the value of a part, or of some of its rows, that a server has sent.
/// @param rows None: the whole part.
void check_value(const server_variable& of, std::uint32_t part,
                 std::optional<std::int64_t> rows, const tensor& value) {
  auto expected = of.spec();
  if (expected.dims.rank() > 0)
    expected.dims = expected.dims.with_extent(
      0, rows ? *rows : of.sharding().range_of(part).size());
  if (!value || value.spec() != expected)
    throw job_error{ec::protocol, "parameter server "
                                    + std::to_string(of.servers()[part])
                                    + " has sent another value of \""
                                    + of.name() + "\" than it was asked for"};
}

} // namespace

server_replica::server_replica(closure_environment& self,
                               std::shared_ptr<const training_layout> layout,
                               std::uint64_t training, std::uint32_t replica)
  : self_{self},
    layout_{std::move(layout)},
    training_{training},
    replica_{replica} {
  for (std::uint32_t shard = 0; shard < layout_->servers(); ++shard)
    versions_.emplace_back(layout_->parts_of(shard).size());
}

std::uint64_t server_replica::find_step() {
  std::vector<closure_environment::step_pull> asked;
  for (std::uint32_t shard = 0; shard < layout_->servers(); ++shard)
    if (!layout_->parts_of(shard).empty())
      asked.push_back({{shard, training_, replica_, 0, {}, {}}, {}});
  next_step_ = std::numeric_limits<std::uint64_t>::max();
  for (const auto& one : self_.pull_step(asked))
    next_step_ = std::min(next_step_, one.answer.next_step);
  return next_step_;
}

tensors server_replica::pull(std::uint64_t step, std::span<const read> all) {
  const auto how = divide(step, all);
  return join(all, how, self_.pull_step(how.asked));
}

server_replica::divided_reads
server_replica::divide(std::uint64_t step, std::span<const read> all) const {
  divided_reads out;
  out.routed.resize(all.size());
  std::vector<std::vector<std::pair<std::uint32_t, piece>>> by_shard(
    layout_->servers());
  for (std::size_t r = 0; r < all.size(); ++r) {
    const auto v = all[r].variable;
    const auto& variable = layout_->variables()[v];
    auto& routed = out.routed[r];
    if (all[r].rows)
      routed = parameter_server::route(variable.sharding(), variable.name(),
                                       *all[r].rows);
    for (std::uint32_t i = 0; i < variable.servers().size(); ++i) {
      if (all[r].rows && routed.rows(i).empty())
        continue;
      by_shard[layout_->shard_of({v, i})].push_back(
        {layout_->index_of({v, i}),
         {r, i, all[r].rows ? numbers_of(routed.rows(i)) : tensor{}}});
    }
  }
  for (std::uint32_t shard = 0; shard < by_shard.size(); ++shard) {
    auto& pieces = by_shard[shard];
    if (pieces.empty())
      continue;
    std::ranges::sort(pieces, {}, [](const auto& x) { return x.first; });
    auto& one = out.asked.emplace_back();
    one.what = {shard, training_, replica_, step, {}, {}};
    auto& places = out.pieces.emplace_back();
    for (auto& [index, x] : pieces) {
      one.what.parts.push_back(index);
      one.what.has_rows.push_back(x.rows ? 1 : 0);
      if (x.rows)
        one.rows.push_back(x.rows);
      places.push_back(std::move(x));
    }
  }
  return out;
}

tensors
server_replica::join(std::span<const read> all, const divided_reads& how,
                     std::vector<closure_environment::step_values>&& answers) {
  std::vector<tensors> parts(all.size());
  tensors out(all.size());
  for (std::size_t r = 0; r < all.size(); ++r) {
    const auto& variable = layout_->variables()[all[r].variable];
    if (!all[r].rows)
      parts[r].resize(variable.servers().size());
    else
      out[r] = tensor{
        variable.spec().dims.with_extent(0, std::int64_t(all[r].rows->size())),
        variable.spec().type};
  }
  next_step_ = std::numeric_limits<std::uint64_t>::max();
  for (std::size_t i = 0; i < how.asked.size(); ++i) {
    next_step_ = std::min(next_step_, answers[i].answer.next_step);
    note_versions(how.asked[i], answers[i].answer);
    for (std::size_t p = 0; p < how.pieces[i].size(); ++p) {
      const auto& x = how.pieces[i][p];
      auto& value = answers[i].values[p];
      const auto& variable = layout_->variables()[all[x.read].variable];
      check_value(variable, x.part,
                  x.rows ? std::optional{std::int64_t(x.rows.size())}
                         : std::nullopt,
                  value);
      if (!x.rows)
        parts[x.read][x.part] = std::move(value);
      else
        parameter_server::scatter_rows(
          {value.raw(), value.bytes()}, how.routed[x.read].positions(x.part),
          parameter_server::row_bytes(variable.spec()),
          {out[x.read].mutable_address(), out[x.read].bytes()});
    }
  }
  for (std::size_t r = 0; r < all.size(); ++r)
    if (!all[r].rows)
      out[r] = join_parts(layout_->variables()[all[r].variable].spec(),
                          {parts[r].begin(), parts[r].end()})
                 .read_only();
  return out;
}

void server_replica::note_versions(const closure_environment::step_pull& asked,
                                   const parameter_server::pulled& answer) {
  auto& to = versions_[asked.what.shard];
  for (std::size_t i = 0; i < asked.what.parts.size(); ++i)
    to[asked.what.parts[i]] = answer.versions[i];
}

std::uint64_t server_replica::newest_version(std::uint32_t variable) const {
  std::uint64_t out = 0;
  const auto parts = layout_->variables()[variable].servers().size();
  for (std::uint32_t i = 0; i < parts; ++i) {
    const training_layout::variable_part part{variable, i};
    out = std::max(out,
                   versions_[layout_->shard_of(part)][layout_->index_of(part)]);
  }
  return out;
}

tensors server_replica::push(std::uint64_t step,
                             std::span<const parameter_gradient> gradients,
                             const parameter_server::update_factors& factors,
                             std::span<const read> next) {
  const auto how = divide(step + 1, next);
  auto answers =
    self_.push_step(pushes_of(step, gradients, factors), how.asked);
  return next.empty() ? tensors{} : join(next, how, std::move(answers));
}

std::vector<closure_environment::step_push> server_replica::pushes_of(
  std::uint64_t step, std::span<const parameter_gradient> gradients,
  const parameter_server::update_factors& factors) const {
  std::vector<closure_environment::step_push> all;
  for (std::uint32_t v = 0; v < layout_->variables().size(); ++v) {
    auto operands = operands_by_part(
      layout_->variables()[v],
      v < gradients.size() ? gradients[v] : parameter_gradient{});
    for (std::uint32_t i = 0; i < operands.size(); ++i) {
      const auto shard = layout_->shard_of({v, i});
      const auto index = layout_->index_of({v, i});
      all.push_back({{shard,
                      training_,
                      {replica_, step, index},
                      versions_[shard][index],
                      factors},
                     std::move(operands[i])});
    }
  }
  return all;
}

} // namespace troupe
