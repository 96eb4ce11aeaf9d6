#pragma once

#include "troupe/net/cluster/cluster_resolver.hpp"

#include <memory>

namespace troupe::net {

/// Several clusters as one: the lists of a job are joined one after the other;
/// if a part gives it as a dict (`cluster_spec::as_dict`), all do, and no index
/// may stand in two of them. All else is the first part's.
class union_resolver : public cluster_resolver {
public:
  using part = std::shared_ptr<const cluster_resolver>;

  /// These take the place of the first part's.
  struct options {
    std::optional<std::string> task_type{};
    std::optional<task_index> task_id{};
    std::optional<std::string> rpc_layer{};
  };

  explicit union_resolver(std::vector<part> parts)
    : union_resolver{std::move(parts), options{}} {}
  /// @errors throws std::invalid_argument without parts, or if one is null.
  union_resolver(std::vector<part> parts, options own);

  /// @errors throws std::invalid_argument if an index stands in two parts.
  net::cluster_spec cluster_spec() const override;
  std::optional<std::string> task_type() const override;
  std::optional<task_index> task_id() const override;
  std::string master(const master_query& query = {}) const override;
  std::string rpc_layer() const override;
  std::string environment() const override;

private:
  std::vector<part> parts_;
  options own_;
};

} // namespace troupe::net
