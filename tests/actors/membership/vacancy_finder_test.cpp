#include "troupe/actors/membership/status_service.hpp"
#include "troupe/actors/membership/vacancy_finder.hpp"
#include "troupe/tests/actors/membership/clusters.hpp"

#include <caf/send.hpp>

namespace {

using namespace troupe;
using namespace troupe::testing;

const std::vector<std::string> names{"worker 0", "worker 1"};

/// A process that answers spares with what a table says.
class answering_process {
public:
  answering_process(runtime& actors, std::uint32_t task)
    : task_{task},
      service_{spawn_status_service(actors.system(),
                                    {table, "job", names, task + 1, task})} {
    const net::hello own{"job", names[task], task + 1, "vacancies", {}};
    registration_ = router_->serve(
      "job", "vacancies",
      {[own](const net::hello&) {
         return net::hello_response{true, {}, {}, own};
       },
       [service = service_](const net::hello&, net::accepted_connection&& x) {
         caf::anon_send(service,
                        client_ref{std::move(
                          std::get<std::shared_ptr<net::connection>>(x))});
       }});
    router_->open();
  }
  ~answering_process() {
    registration_.reset();
    caf::anon_send_exit(service_, caf::exit_reason::user_shutdown);
  }

  membership::member as_member() const {
    return {task_, task_ + 1, address().host, address().port, {task_}, 1};
  }
  const net::address& address() const {
    return router_->endpoint().advertised_address();
  }
  void set_view(const membership::view& view) const {
    table->update([&] {
      table->started = true;
      table->view = view;
    });
  }

  const std::shared_ptr<peer_table> table =
    std::make_shared<peer_table>(names.size());

private:
  std::uint32_t task_;
  std::shared_ptr<service_router> router_ = make_router();
  status_service_actor service_;
  std::unique_ptr<service_router::registration> registration_;
};

vacancy_finder_options options_for(const answering_process& first,
                                   std::chrono::milliseconds timeout) {
  return {.job = "job",
          .addresses = {first.address()},
          .names = names,
          .hello = {"job", "spare", 9, "vacancies", {}},
          .timeout = timeout,
          .end_timeout = timeout};
}

TEST(VacancyFinder, AsksAnotherProcessWhenItsMemberIsExcluded) {
  runtime actors;
  const answering_process first{actors, 0}, second{actors, 1};
  first.set_view({1, {first.as_member(), second.as_member()}});
  second.set_view({2, {second.as_member()}});
  auto options = options_for(first, 20s);
  options.log = [&](net::severity, const std::string&) { // the first answer
    first.table->update([&] { first.table->excluded = true; });
  };
  vacancy_finder finder{actors.system(), make_router(), options};
  const auto found = finder.next();
  EXPECT_EQ(found.task, 0u);
  EXPECT_EQ(found.view.view_id, 2u);
}

TEST(VacancyFinder, EndsAtTheTimeoutThoughATaskThatItCannotTakeIsVacant) {
  runtime actors;
  const answering_process member{actors, 1};
  member.set_view({2, {member.as_member()}});
  vacancy_finder finder{actors.system(), make_router(),
                        options_for(member, 1ms)};
  EXPECT_EQ(finder.next().task, 0u);
  try {
    finder.next("worker 1: connection refused");
    FAIL() << "it goes on";
  } catch (const job_error& e) {
    EXPECT_EQ(e.code, ec::stalled);
    EXPECT_TRUE(mentions(e.what(), "the spare timeout of 1 ms")) << e.what();
    EXPECT_TRUE(mentions(e.what(), "worker 1: connection refused")) << e.what();
  }
}

} // namespace
