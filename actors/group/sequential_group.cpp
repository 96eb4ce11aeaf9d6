#include "troupe/actors/group/sequential_group.hpp"

#include <algorithm>

namespace troupe {

void refuse_bucket(const char* what, std::uint32_t bucket, const char* why) {
  throw std::logic_error(what + std::to_string(bucket) + why);
}

namespace {

// A group of one replica: a step is a function call, and the sum of a bucket is
// the contribution itself.

class lone_step final : public step_context {
public:
  void contribute(std::uint32_t bucket, const tensor& part) override {
    if (find(bucket) != parts.end())
      refuse_bucket("bucket ", bucket, " was contributed to twice in a step");
    parts.push_back({bucket, part});
  }

  tensor sum(std::uint32_t bucket) override {
    const auto it = find(bucket);
    if (it == parts.end())
      refuse_bucket("the sum of bucket ", bucket,
                    " was asked for before a contribution to it");
    return it->part;
  }

  tensors gather(std::uint32_t, const tensor& part) override {
    return tensors(1, part);
  }

  void begin_update() override {}

  struct brought {
    std::uint32_t bucket;
    tensor part;
  };
  pooled<brought> parts;

private:
  pooled<brought>::iterator find(std::uint32_t bucket) {
    return std::ranges::find(parts, bucket, &brought::bucket);
  }
};

class lone_crew final : public inline_crew {
public:
  using inline_crew::inline_crew;

protected:
  void run_step(const step_function& fn, std::uint64_t step,
                std::uint64_t epoch) override {
    prepare(context_, options_, 0, step);
    prepare(at_, options_, 0, step, epoch);
    at_.parts.clear();
    const context_scope inside{context_};
    fn(at_);
    at_.parts.clear();
    reports_[0] = at_.report;
  }

  context& context_of(std::uint32_t) override { return context_; }

private:
  context context_;
  lone_step at_;
};

} // namespace

std::unique_ptr<crew> make_inline_crew(const crew_options& options) {
  check(options);
  if (options.replicas == 1)
    return std::make_unique<lone_crew>(options);
  return make_turns_crew(options);
}

} // namespace troupe
