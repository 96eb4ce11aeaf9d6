#include "troupe/actors/membership/cluster_impl.hpp"
#include "troupe/net/base/text.hpp"
#include "troupe/net/codec/codec.hpp"

#include <algorithm>

namespace troupe {

namespace {

class line_listener final : public net::link_listener {
public:
  line_listener(std::shared_ptr<hall> in, std::uint32_t task,
                std::uint64_t incarnation)
    : in_{std::move(in)}, task_{task}, incarnation_{incarnation} {}

  void heard(net::frame&& x) override {
    notice what;
    const auto fault = net::decode(x.payload, what.what, what.text, what.all);
    const std::lock_guard hold{in_->lock};
    auto& from = in_->seats[task_];
    if (from.incarnation != incarnation_ || !from.line)
      return;
    from.line->consumed(x.priority);
    if (!fault)
      hear(from, std::move(what));
    else if (from.wire)
      from.wire->close("a membership message is malformed: "
                       + to_string(*fault));
    in_->news.notify_all();
  }

  void ended(net::ending how, const std::string& why) override {
    const std::lock_guard hold{in_->lock};
    auto& from = in_->seats[task_];
    if (from.incarnation != incarnation_)
      return;
    if (in_->who)
      in_->who->on_lost(task_, incarnation_);
    from.end.emplace(how, why);
    in_->news.notify_all();
  }

private:
  void hear(hall::seat& from, notice&& x) {
    switch (x.what) {
      case word::table:
        if (!in_->who) // the leader makes the view itself
          in_->table = std::move(x.all);
        break;
      case word::ready:
        from.ready = true;
        break;
      case word::go:
        in_->go = true;
        break;
      case word::give_up:
        // Before the view is agreed the leader can admit another process.
        if (in_->table || !in_->who)
          in_->given_up = net::printable(x.text, net::max_sentence_bytes);
        break;
      case word::leave:
        from.left = true;
        in_->say(from, {word::bye, {}, {}});
        break;
      case word::bye:
        from.left = true;
        break;
      case word::over:
        in_->over = true;
        in_->say(from, {word::leave, {}, {}});
    }
  }

  std::shared_ptr<hall> in_;
  std::uint32_t task_;
  std::uint64_t incarnation_;
};

} // namespace

void hall::say(seat& to, notice x) {
  if (!to.line || to.end)
    return;
  to.line->post({net::frame_kind::fact, net::priority::control, 0, ++to.tag,
                 net::encode(x.what, x.text, x.all)});
}

bool hall::failed() const {
  return given_up || std::ranges::any_of(seats, [](const seat& x) {
           return bool(x.end);
         });
}

void settle(const std::shared_ptr<hall>& in, std::uint32_t task,
            std::uint64_t incarnation, std::shared_ptr<net::connection> wire) {
  const auto line = wire->open(membership_channel);
  {
    const std::lock_guard hold{in->lock};
    in->seats[task] = {std::move(wire), line, incarnation, 0, false, false, {}};
    in->news.notify_all();
  }
  line->listen(std::make_shared<line_listener>(in, task, incarnation));
}

} // namespace troupe
