#include "troupe/simulation/determinism_check.hpp"

#include "troupe/training/strategies/local_strategies.hpp"

#include <cstring>
#include <sstream>

namespace troupe::simulation {

namespace {

template <class T>
std::string first_difference(const tensor& a, const tensor& b) {
  const auto x = a.data<T>(), y = b.data<T>();
  for (std::size_t i = 0; i < x.size(); ++i)
    if (std::memcmp(&x[i], &y[i], sizeof(T)) != 0) {
      std::ostringstream out;
      out.precision(17);
      out << "element " << i << ": " << +x[i] << " is not " << +y[i];
      return out.str();
    }
  return "";
}

using attempt = std::function<tensors(sim&, const crew_options&, fault_dice&)>;

verdict compare(const trials& under, const tensors& expected,
                const attempt& of) {
  verdict out;
  for (auto seed = under.first_seed;
       out.same && seed < under.first_seed + under.seeds; ++seed) {
    sim world{seed};
    fault_dice dice{under.plan, seed};
    auto options = under.crew;
    if (options.reducing == crew_options::reducers::automatic)
      options.reducing =
        seed % 2 ? crew_options::reducers::hosted : crew_options::reducers::own;
    try {
      out.what = difference(of(world, options, dice), expected);
    } catch (const std::exception& e) {
      out.what = std::string{"the job threw: "} + e.what();
    }
    out.same = out.what.empty();
    if (!out.same)
      out.what = "seed " + std::to_string(seed) + ": " + out.what;
    out.fired += dice.fired;
    out.delivered += world.delivered;
  }
  return out;
}

tensors of_one(const job& what, const trials& under, sim& in,
               const crew_options& x, fault_dice& dice) {
  return what(make_strategy(in,
                            {.replicas = x.replicas,
                             .processes = under.processes,
                             .threads = x.threads,
                             .patience = x.patience,
                             .reducing = x.reducing,
                             .seed = x.seed,
                             .lease = x.lease,
                             .network = under.network},
                            &dice));
}

tensors of_workers(const job& what, const trials& under, sim& in,
                   const crew_options& x, fault_dice& dice) {
  processes all{in, x, {under.processes, under.network}, &dice};
  std::vector<tensors> got(all.count());
  const auto ends = all.each([&](std::uint32_t p) {
    got[p] = what(make_worker_strategy(all, p, x.threads));
  });
  tensors out;
  for (std::uint32_t p = 0; p < all.count(); ++p) {
    if (ends[p])
      std::rethrow_exception(ends[p]);
    out.insert(out.end(), got[p].begin(), got[p].end());
  }
  return out;
}

} // namespace

std::string difference(const tensors& a, const tensors& b) {
  if (a.size() != b.size())
    return std::to_string(a.size()) + " tensors, expected "
           + std::to_string(b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    const auto where = "tensor " + std::to_string(i) + ", ";
    if (a[i].spec() != b[i].spec())
      return where + to_string(a[i].spec()) + " is not "
             + to_string(b[i].spec());
    const auto what = with_dtype(
      a[i].type(), [&]<class T>(T) { return first_difference<T>(a[i], b[i]); });
    if (!what.empty())
      return where + what;
  }
  return "";
}

verdict same_bits(const job& what, const trials& under) {
  const auto& options = under.crew;
  const one_device_strategy alone{
    "cpu:0", {.replicas = options.replicas, .threads = options.threads}};
  return compare(under, what(alone),
                 [&](sim& in, const crew_options& x, fault_dice& dice) {
                   return under.workers ? of_workers(what, under, in, x, dice)
                                        : of_one(what, under, in, x, dice);
                 });
}

verdict same_bits_of_crew(const crew_job& what, const trials& under) {
  return compare(
    under, what(*make_inline_crew(under.crew)),
    [&](sim& in, const crew_options& x, fault_dice& dice) {
      return what(*make_crew(in, x, {under.processes, under.network}, &dice));
    });
}

tensors values_on_each(const strategy& of, const std::vector<variable>& all) {
  const auto copies = of.run([&] {
    tensors mine;
    for (const auto& v : all)
      mine.push_back(v.value().clone());
    return mine;
  });
  tensors out;
  for (const auto& mine : of.local_results(copies))
    out.insert(out.end(), mine.begin(), mine.end());
  return out;
}

} // namespace troupe::simulation
