#include "troupe/models/network.hpp"

#include <algorithm>
#include <array>

namespace troupe::models {

namespace {

using row = std::array<std::string, 3>;

/// Formats a number with thousands separators: 3,274,634.
std::string grouped(std::size_t x) {
  auto digits = std::to_string(x);
  for (auto at = static_cast<std::ptrdiff_t>(digits.size()) - 3; at > 0;
       at -= 3)
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  return digits;
}

/// Formats a shape with an unknown batch size: (None, 28, 28, 1).
std::string open_shape(const shape& x) {
  std::string text = "(None";
  for (const auto extent : x)
    text += ", " + std::to_string(extent);
  return text + ")";
}

std::size_t elements_of(const layer_node& node, const network& net) {
  std::size_t sum = 0;
  for (const auto i : node.parameters)
    sum += net.parameters()[i].dims.elements();
  for (const auto& child : node.children)
    sum += elements_of(child, net);
  return sum;
}

std::string padded(const row& cells, const std::array<std::size_t, 2>& widths) {
  auto line = " " + cells[0];
  line.resize(std::max(line.size() + 1, widths[0]), ' ');
  line += cells[1];
  line.resize(std::max(line.size() + 1, widths[0] + widths[1]), ' ');
  return line + cells[2] + "\n";
}

} // namespace

std::string summary(const network& net) {
  std::vector<row> rows{{"Layer (type)", "Output Shape", "Param #"}};
  for (const auto& node : net.root().children)
    rows.push_back({node.name + " (" + std::string{node.instance->type()} + ")",
                    open_shape(node.output), grouped(elements_of(node, net))});
  // The columns are as wide as those of a Keras summary, or wider if a name is
  // longer.
  std::array<std::size_t, 2> widths{29, 26};
  for (const auto& one : rows) {
    widths[0] = std::max(widths[0], one[0].size() + 3);
    widths[1] = std::max(widths[1], one[1].size() + 2);
  }
  const auto width = widths[0] + widths[1] + 10;
  const auto total = grouped(elements_of(net.root(), net));
  auto text = "Model: \"" + net.name() + "\"\n" + std::string(width, '_') + "\n"
              + padded(rows[0], widths) + std::string(width, '=') + "\n";
  for (std::size_t i = 1; i < rows.size(); ++i)
    text += padded(rows[i], widths);
  return text + std::string(width, '=') + "\nTotal params: " + total
         + "\nTrainable params: " + total + "\nNon-trainable params: 0\n"
         + std::string(width, '_') + "\n";
}

} // namespace troupe::models
