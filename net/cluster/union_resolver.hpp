#pragma once

#include "troupe/net/cluster/cluster_resolver.hpp"

#include <memory>

namespace troupe::net {

/// A resolver that merges the clusters of several other resolvers, its sources,
/// job by job. If each source that has a job gives it as a list
/// (`cluster_spec::as_dict`), the lists are concatenated. If a source gives the
/// job as a dict, the tasks are merged by index, and no index may appear twice.
/// All values other than the cluster come from the first source.
class union_resolver : public cluster_resolver {
public:
  using source = std::shared_ptr<const cluster_resolver>;

  /// Values that are used instead of those of the first source.
  struct options {
    std::optional<std::string> task_type{};
    std::optional<task_index> task_id{};
    std::optional<std::string> rpc_layer{};
  };

  explicit union_resolver(std::vector<source> sources)
    : union_resolver{std::move(sources), options{}} {}
  /// @errors throws std::invalid_argument if there is no source, or a source is
  ///         null.
  union_resolver(std::vector<source> sources, options overrides);

  /// @errors throws std::invalid_argument if sources are merged by index and an
  ///         index of a job appears twice.
  net::cluster_spec cluster_spec() const override;
  std::optional<std::string> task_type() const override;
  std::optional<task_index> task_id() const override;
  std::string master(const master_query& query = {}) const override;
  std::string rpc_layer() const override;
  std::string environment() const override;

private:
  std::vector<source> sources_;
  options overrides_;
};

} // namespace troupe::net
