#include "troupe/data/sources/idx.hpp"

#include "troupe/data/sources/input_file.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <stdexcept>
#include <string>

namespace troupe::data {

namespace {

namespace fs = std::filesystem;

/// Reads the header of an IDX file and checks it against the file size.
shape read_header(input_file& file, std::uint64_t max_elements) {
  std::array<std::byte, 4> magic;
  file.read(magic, "header");
  const auto type = std::to_integer<unsigned>(magic[2]);
  const auto rank = std::to_integer<unsigned>(magic[3]);
  if (magic[0] != std::byte{0} || magic[1] != std::byte{0} || type < 0x08
      || type > 0x0E || rank == 0 || rank > shape::max_rank)
    throw std::runtime_error(
      file.name()
      + " is not an IDX file: its first four bytes are not "
        "0, 0, a type and a number of axes");
  if (type != 0x08)
    throw std::runtime_error(file.name() + " holds IDX type "
                             + std::to_string(type)
                             + ": convert it to type 8 (bytes)");
  std::array<std::int64_t, shape::max_rank> extents{};
  std::uint64_t product = 1;
  bool empty = false;
  std::string extents_text;
  for (unsigned axis = 0; axis < rank; ++axis) {
    std::array<std::byte, 4> big_endian;
    file.read(big_endian, "header");
    std::uint64_t extent = 0;
    for (const auto each : big_endian)
      extent = extent << 8 | std::to_integer<std::uint64_t>(each);
    extents[axis] = static_cast<std::int64_t>(extent);
    extents_text += (axis > 0 ? " x " : "") + std::to_string(extent);
    // The multiplication does not overflow if `max_elements` is at most 2^32;
    // its default is 2^30. `product` is at most `max_elements`, and `extent` is
    // below 2^32.
    if (product <= max_elements)
      product *= std::max(extent, std::uint64_t{1});
    empty |= extent == 0;
  }
  if (product > max_elements)
    throw std::runtime_error(file.name() + " declares " + extents_text
                             + " bytes: at most " + std::to_string(max_elements)
                             + " are supported");
  product *= !empty;
  const auto header = 4 + 4 * std::uint64_t{rank};
  if (file.is_compressed() ? product + header > file.max_size()
                           : product + header != file.max_size())
    throw std::runtime_error(
      file.name() + " declares " + extents_text + " bytes after a header of "
      + std::to_string(header) + " and "
      + (file.is_compressed() ? "cannot hold more than " : "has ")
      + std::to_string(file.max_size()) + " in all: get another copy");
  return shape{std::span{extents}.first(rank)};
}

/// Finds the file of this name in a folder, plain or compressed (".gz"). Some
/// copies have a dot in place of the dash before "idx".
std::optional<fs::path> find(const fs::path& folder, const std::string& name) {
  auto with_dot = name;
  if (const auto dash = with_dot.find("-idx"); dash != with_dot.npos)
    with_dot[dash] = '.';
  for (const auto& each : {name, with_dot})
    for (const auto* ending : {"", ".gz"}) {
      std::error_code none;
      if (auto file = folder / (each + ending); fs::exists(file, none))
        return file;
    }
  return std::nullopt;
}

fs::path need(const fs::path& folder, const std::string& name) {
  if (auto file = find(folder, name))
    return *file;
  throw std::runtime_error(folder.string() + " holds neither " + name + " nor "
                           + name + ".gz: put the MNIST files there");
}

/// Reads images and labels, and checks that each image has a label.
dataset read_subset(const fs::path& folder, const std::string& subset,
                    std::int64_t classes) {
  const auto images_file = need(folder, subset + "-images-idx3-ubyte");
  const auto labels_file = need(folder, subset + "-labels-idx1-ubyte");
  const auto images = read_idx(images_file);
  const auto labels = read_idx(labels_file);
  const auto& image_dims = images.dims();
  if (image_dims.rank() != 3 || image_dims.elements() == 0)
    throw std::runtime_error(images_file.string() + " holds an array "
                             + to_string(image_dims)
                             + ": images are [n, height, width]");
  if (labels.dims() != shape{image_dims.front()})
    throw std::runtime_error(
      images_file.string() + " holds " + std::to_string(image_dims.front())
      + " images and " + labels_file.string() + " an array "
      + to_string(labels.dims()) + " of labels: use files of one set");
  try {
    return dataset::of_pixels(
      images.reshaped({image_dims[0], image_dims[1], image_dims[2], 1}),
      labels.as(dtype::int32), classes);
  } catch (const std::invalid_argument& why) {
    throw std::runtime_error(labels_file.string() + ": " + why.what());
  }
}

} // namespace

tensor read_idx(const fs::path& name, std::uint64_t max_elements) {
  input_file file{name};
  tensor out{read_header(file, max_elements), dtype::uint8};
  file.read({out.raw(), out.bytes()}, "data");
  file.finish();
  return out;
}

dataset::train_test mnist(const fs::path& folder, std::int64_t classes) {
  std::error_code none;
  if (!fs::is_directory(folder, none))
    throw std::runtime_error(
      folder.string()
      + " is not a folder: give the folder that holds the MNIST "
        "files");
  const auto test = read_subset(folder, "t10k", classes);
  if (find(folder, "train-images-idx3-ubyte")
      || find(folder, "train-labels-idx1-ubyte")) {
    const auto train = read_subset(folder, "train", classes);
    if (train.element() != test.element())
      throw std::runtime_error(
        folder.string() + " holds images " + to_string(train.element().dims)
        + " for training and " + to_string(test.element().dims)
        + " for testing: use files of one set");
    return {train, test};
  }
  constexpr std::uint64_t for_training = 8'000;
  if (*test.size() <= for_training)
    throw std::runtime_error(folder.string() + " holds only "
                             + std::to_string(*test.size())
                             + " examples (t10k), and no train: more than 8000 "
                               "are needed to train and to test");
  return {test.take(for_training), test.skip(for_training)};
}

} // namespace troupe::data
