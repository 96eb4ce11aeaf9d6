#include "troupe/strategies/parameter_server/partitioner.hpp"
#include "troupe/strategies/parameter_server/row_routing.hpp"
#include "troupe/strategies/parameter_server/server_placement.hpp"
#include "troupe/tests/support/tf_values.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

// Replays what TensorFlow has computed about partitioners, sharded variables
// and their placement. The rows of a sharded variable are moved as a worker and
// the servers move them.

using namespace troupe;
using namespace troupe::parameter_server;
using nlohmann::json;

namespace {

// -- inputs -------------------------------------------------------------------

shape shape_of(const json& extents) {
  const auto list = extents.get<std::vector<std::int64_t>>();
  return shape{std::span{list}};
}

/// Troupe has no int8, so uint8, which has the same size, takes its place.
dtype dtype_of(const std::string& name) {
  if (name == "float32")
    return dtype::float32;
  if (name == "float64")
    return dtype::float64;
  if (name == "int8")
    return dtype::uint8;
  throw std::runtime_error("no code here replays the dtype " + name);
}

/// @param text such as "MinSize(4,2)".
partitioner partitioner_of(const std::string& text) {
  const auto open = text.find('(');
  const auto name = text.substr(0, open);
  std::istringstream words{text.substr(open + 1)};
  std::vector<std::int64_t> x;
  for (std::int64_t number; words >> number; words.ignore())
    x.push_back(number);
  if (name == "FixedShards" && x.size() == 1)
    return fixed_shards_partitioner(x[0]);
  if (name == "MinSize" && x.empty())
    return min_size_partitioner();
  if (name == "MinSize" && x.size() == 2)
    return min_size_partitioner(x[0], x[1]);
  if (name == "MinSize" && x.size() == 1)
    return min_size_partitioner(x[0]);
  if (name == "MaxSize" && x.size() == 1)
    return max_size_partitioner(x[0]);
  if (name == "MaxSize" && x.size() == 2)
    return max_size_partitioner(x[0], x[1]);
  throw std::runtime_error("no code here replays the partitioner " + text);
}

/// A slice of Python: the rows begin, begin + step, ..., before end.
struct python_slice {
  std::int64_t begin = 0, end = 0, step = 1;
  bool single_row = false; ///< An index, not a slice.
};

python_slice slice_of(const std::string& text, std::int64_t rows) {
  std::vector<std::string> fields{""};
  for (const char c : text)
    if (c == ':')
      fields.emplace_back();
    else
      fields.back() += c;
  const auto row = [&](const std::string& field, std::int64_t otherwise) {
    const auto x = field.empty() ? otherwise : std::stoll(field);
    return x < 0 ? x + rows : x;
  };
  python_slice out;
  out.begin = row(fields[0], 0);
  out.single_row = fields.size() == 1;
  out.end = out.single_row ? out.begin + 1 : row(fields[1], rows);
  out.step = fields.size() > 2 ? std::stoll(fields[2]) : 1;
  return out;
}

// -- a sharded table ----------------------------------------------------------

/// A sharded variable of float64. Element i is i at first.
struct table {
  tensor_spec spec;
  row_sharding sharding;
  std::size_t width; ///< Elements of a row.
  std::vector<std::vector<double>> shards;

  explicit table(const json& inputs)
    : spec{shape_of(inputs.at("shape")), dtype::float64},
      sharding{shard_rows(fixed_shards_partitioner(inputs.at("num_shards")),
                          "table", spec)},
      width{row_bytes(spec) / sizeof(double)} {
    double next = 0;
    for (std::uint32_t s = 0; s < sharding.shards(); ++s)
      for (auto& x : shards.emplace_back(elements_of(s)))
        x = next++;
  }

  std::size_t elements_of(std::uint32_t shard) const {
    return static_cast<std::size_t>(sharding.range_of(shard).size()) * width;
  }

  /// Rows as JSON: numbers if the table has one axis, else lists.
  json to_json(const std::vector<double>& elements) const {
    if (spec.dims.rank() == 1)
      return elements;
    auto out = json::array();
    for (auto x = elements.begin(); x != elements.end();
         x += static_cast<std::ptrdiff_t>(width))
      out.push_back(
        std::vector<double>(x, x + static_cast<std::ptrdiff_t>(width)));
    return out;
  }

  json to_json() const {
    auto out = json::array();
    for (const auto& each : shards)
      out.push_back(to_json(each));
    return out;
  }

  json lookup(const std::vector<std::int64_t>& ids) const {
    const auto routed = route(sharding, "table", ids);
    std::vector<double> out(ids.size() * width);
    for (std::uint32_t s = 0; s < sharding.shards(); ++s) {
      const std::vector<std::size_t> rows(routed.rows(s).begin(),
                                          routed.rows(s).end());
      std::vector<double> answer(rows.size() * width);
      gather_rows(std::as_bytes(std::span{shards[s]}), rows, row_bytes(spec),
                  std::as_writable_bytes(std::span{answer}));
      scatter_rows(std::as_bytes(std::span{answer}), routed.positions(s),
                   row_bytes(spec), std::as_writable_bytes(std::span{out}));
    }
    return to_json(out);
  }

  json slice(const python_slice& wanted) const {
    if (wanted.single_row)
      return lookup({wanted.begin}).at(0);
    if (wanted.step != 1) {
      std::vector<std::int64_t> ids;
      for (auto row = wanted.begin; row < wanted.end; row += wanted.step)
        ids.push_back(row);
      return lookup(ids);
    }
    std::vector<double> out;
    for (const auto& x : sharding.slices({wanted.begin, wanted.end})) {
      const auto* const first = shards[x.shard].data();
      out.insert(out.end(),
                 first + static_cast<std::size_t>(x.rows.begin) * width,
                 first + static_cast<std::size_t>(x.rows.end) * width);
    }
    return to_json(out);
  }

  using binary = std::function<double(double, double)>;

  void scatter(const json& inputs, const binary& combine) {
    std::vector<double> values;
    for (const auto& row : inputs.at("values"))
      for (const double x : row)
        values.push_back(x);
    const auto ids = inputs.at("indices").get<std::vector<std::int64_t>>();
    const auto routed = route(sharding, "table", ids);
    for (std::uint32_t s = 0; s < sharding.shards(); ++s) {
      const auto rows = routed.rows(s);
      std::vector<double> sent(rows.size() * width);
      gather_rows(std::as_bytes(std::span{values}), routed.positions(s),
                  row_bytes(spec), std::as_writable_bytes(std::span{sent}));
      for (std::size_t i = 0; i < sent.size(); ++i) {
        auto& x = shards[s][static_cast<std::size_t>(rows[i / width]) * width
                            + i % width];
        x = combine(x, sent[i]);
      }
    }
  }

  /// Combines each element with 1.
  void combine_with_ones(const binary& combine) {
    for (std::uint32_t s = 0; s < sharding.shards(); ++s)
      for (std::size_t i = 0; i < elements_of(s); ++i)
        shards[s].at(i) = combine(shards[s].at(i), 1);
  }
};

// -- entries ------------------------------------------------------------------

/// Computes what an entry expects.
/// @errors throws std::runtime_error if the entry is of no known kind.
using computation =
  std::function<json(const std::string& kind, const json& inputs)>;

[[noreturn]] void unknown(const std::string& kind) {
  throw std::runtime_error("no code here replays entries of the kind " + kind);
}

json replay_partitioner(const std::string&, const json& inputs) {
  const auto rule = partitioner_of(inputs.at("partitioner"));
  return rule({shape_of(inputs.at("shape")),
               dtype_of(inputs.value("dtype", std::string{"float32"}))});
}

json replay_placement(const std::string& kind, const json& inputs) {
  if (kind != "round_robin")
    unknown(kind);
  server_placement placement{inputs.at("ps").get<std::uint32_t>()};
  auto out = json::array();
  for (int i = 0; i < inputs.at("variables").get<int>(); ++i)
    out.push_back(placement.place({{}, dtype::float32}, {1, 1}).at(0));
  return out;
}

json replay_table(const std::string& kind, const json& inputs) {
  table x{inputs};
  if (kind == "create") {
    server_placement placement{inputs.at("ps").get<std::uint32_t>()};
    std::vector<std::int64_t> rows;
    for (std::uint32_t s = 0; s < x.sharding.shards(); ++s)
      rows.push_back(x.sharding.range_of(s).size());
    return {{"type", "ShardedVariable"},
            {"rows", rows},
            {"ps", placement.place(x.spec, x.sharding)},
            {"values", x.to_json()}};
  }
  if (kind == "lookup")
    return x.lookup(inputs.at("ids"));
  if (kind == "slice")
    return x.slice(slice_of(inputs.at("slice"), x.sharding.rows()));
  const auto second = [](double, double b) { return b; };
  const auto smaller = [](double a, double b) { return std::min(a, b); };
  const auto larger = [](double a, double b) { return std::max(a, b); };
  if (kind == "scatter_add")
    x.scatter(inputs, std::plus<>{});
  else if (kind == "scatter_update")
    x.scatter(inputs, second);
  else if (kind == "scatter_min")
    x.scatter(inputs, smaller);
  else if (kind == "scatter_max")
    x.scatter(inputs, larger);
  else if (kind == "assign")
    x.combine_with_ones(second);
  else if (kind == "assign_sub")
    x.combine_with_ones(std::minus<>{});
  else
    unknown(kind);
  return {{"result", nullptr}, {"shards", x.to_json()}};
}

/// Replays all entries of a group, whose ids are "<group>/<kind>" and more.
void replay_group(const std::string& group, const computation& compute) {
  if (!test::tf_values_file())
    GTEST_SKIP() << "TROUPE_TF_VALUES is not set";
  test::replay(test::tf_values(group), {}, [&](const json& entry) {
    const auto rest =
      entry.at("id").get<std::string>().substr(group.size() + 1);
    const auto kind = rest.substr(0, rest.find('/'));
    const auto& inputs = entry.at("inputs");
    try {
      if (entry.contains("error"))
        EXPECT_THROW(compute(kind, inputs), std::invalid_argument);
      else
        EXPECT_EQ(compute(kind, inputs), entry.at("expected"));
    } catch (const std::exception& e) {
      ADD_FAILURE() << e.what();
    }
  });
}

} // namespace

TEST(TfParameterServer, PartitionersReturnTheNumbersOfTensorFlow) {
  replay_group("partitioners", replay_partitioner);
}

TEST(TfParameterServer, PlacementIsThatOfTensorFlow) {
  replay_group("placement", replay_placement);
}

TEST(TfParameterServer, ShardedVariablesHoldTheRowsOfTensorFlow) {
  replay_group("sharded_variable", replay_table);
}
