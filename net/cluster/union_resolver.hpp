#pragma once

#include "troupe/net/cluster/cluster_resolver.hpp"

#include <memory>

namespace troupe::net {

/// Merges several clusters: lists of a job are concatenated. If a source gives
/// the job as a dict (`cluster_spec::as_dict`), all are merged by index, and no
/// index may appear twice. All other values are those of the first source.
class union_resolver : public cluster_resolver {
public:
  using source = std::shared_ptr<const cluster_resolver>;

  /// Values that override those of the first source.
  struct options {
    std::optional<std::string> task_type{};
    std::optional<task_index> task_id{};
    std::optional<std::string> rpc_layer{};
  };

  explicit union_resolver(std::vector<source> sources)
    : union_resolver{std::move(sources), options{}} {}
  /// @errors throws std::invalid_argument if there are no sources or one is
  ///         null.
  union_resolver(std::vector<source> sources, options overrides);

  /// @errors throws std::invalid_argument if an index appears in two sources.
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
