#include "troupe/data/sources/idx.hpp"
#include "troupe/tests/data/counted.hpp"
#include "troupe/tests/support/scratch.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>
#include <stdexcept>
#include <string>
#include <zlib.h>

namespace troupe::data {
namespace {

using testing::complaint;

std::string packed(std::string_view text) {
  z_stream x{};
  deflateInit2(&x, 9, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&x, uLong(text.size())), '\0');
  x.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  x.avail_in = uInt(text.size());
  x.next_out = reinterpret_cast<Bytef*>(out.data());
  x.avail_out = uInt(out.size());
  deflate(&x, Z_FINISH);
  out.resize(x.total_out);
  deflateEnd(&x);
  return out;
}

std::string header(std::initializer_list<std::uint32_t> extents,
                   char type = 8) {
  std::string out{'\0', '\0', type, char(extents.size())};
  for (const auto each : extents)
    for (int shift = 24; shift >= 0; shift -= 8)
      out += char(each >> shift);
  return out;
}

/// Returns an IDX file with three images of 2 x 2 pixels.
std::string three_images() {
  return header({3, 2, 2})
         + std::string("\0\1\2\3\4\5\6\7\x80\x90\xFE\xFF", 12);
}

class Idx : public scratch_test {
protected:
  std::string says(std::string_view text) {
    put("x", text);
    auto out = complaint([&] { read_idx(folder / "x"); });
    if (const auto at = out.find(folder.string()); at != out.npos)
      out.replace(at, folder.string().size() + 1, "");
    return out;
  }

  void put_set(const std::string& part, std::uint32_t n) {
    put(part + "-images-idx3-ubyte",
        header({n, 1, 1}) + std::string(n, '\xFF'));
    put(part + "-labels-idx1-ubyte.gz",
        packed(header({n}) + std::string(n, '\3')));
  }
};

TEST_F(Idx, ReadsPlainAndCompressedFilesAlike) {
  const auto wanted = tensor::of<std::uint8_t>(
    {3, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 0x80, 0x90, 0xFE, 0xFF});
  put("plain", three_images());
  put("packed", packed(three_images()));
  put("twice",
      packed(three_images().substr(0, 9)) + packed(three_images().substr(9)));
  for (const auto* name : {"plain", "packed", "twice"})
    EXPECT_TRUE(same_bits(read_idx(folder / name), wanted)) << name;
}

TEST_F(Idx, FindsTheFilesOfASetByTheirNamesWithADot) {
  put_set("t10k", 3);
  put_set("train", 5);
  for (const std::string part : {"t10k", "train"}) {
    std::filesystem::rename(folder / (part + "-images-idx3-ubyte"),
                            folder / (part + "-images.idx3-ubyte"));
    std::filesystem::rename(folder / (part + "-labels-idx1-ubyte.gz"),
                            folder / (part + "-labels.idx1-ubyte.gz"));
  }
  const auto [train, test] = mnist(folder);
  EXPECT_EQ(train.size(), 5u);
  EXPECT_EQ(test.size(), 3u);
}

TEST_F(Idx, ReadsASetWithOtherClassesIfToldTheirNumber) {
  for (const std::string part : {"t10k", "train"}) {
    put(part + "-images-idx3-ubyte",
        header({2, 1, 1}) + std::string(2, '\xFF'));
    put(part + "-labels-idx1-ubyte", header({2}) + "\1\x1A");
  }
  EXPECT_NE(complaint([&] { mnist(folder); }), "");
  const auto [train, test] = mnist(folder, 27);
  EXPECT_EQ(train.classes(), 27);
  EXPECT_EQ(train.examples(1, 2).labels.item<std::int32_t>(), 26);
}

TEST_F(Idx, NamesAMissingFile) {
  EXPECT_EQ(complaint([&] { read_idx(folder / "none"); }),
            "cannot read " + (folder / "none").string()
              + ": No such file or directory");
  EXPECT_EQ(complaint([&] { read_idx(folder); }),
            folder.string() + " is a folder: give a file in it");
  EXPECT_NE(complaint([&] { read_idx("/dev/zero"); }), "");
}

TEST_F(Idx, DescribesWhatIsWrongWithAFile) {
  EXPECT_EQ(says(""),
            "x ends within its header, after 0 of 4 bytes: get another copy");
  EXPECT_EQ(says("P5 28 28"),
            "x is not an IDX file: its first four bytes are not "
            "0, 0, a type and a number of axes");
  EXPECT_EQ(says(header({1}, 0x0D)),
            "x holds IDX type 13: convert it to type 8 (bytes)");
  EXPECT_EQ(says(three_images() + "!"),
            "x declares 3 x 2 x 2 bytes after a header of 16 and has 29 in "
            "all: get another copy");
  EXPECT_EQ(
    says(packed(three_images() + "!")),
    "x continues after the data that its header declares: get another copy");
  EXPECT_EQ(
    says(packed(three_images()) + "junk"),
    "x holds damaged gzip data (incorrect header check): get another copy");
  auto wrong_sum = packed(three_images());
  wrong_sum[wrong_sum.size() - 5] ^= 1;
  EXPECT_EQ(says(wrong_sum), "x holds damaged gzip data (incorrect data check)"
                             ": get another copy");
}

TEST_F(Idx, RejectsASizeThatTheFileCannotHold) {
  const auto before = memory::used().peak;
  EXPECT_EQ(says(header({60'000, 28, 28})),
            "x declares 60000 x 28 x 28 bytes after a header of 16 and has 16 "
            "in all: get another copy");
  EXPECT_EQ(says(header({0xFFFFFFFF, 0xFFFFFFFF, 0xFFFFFFFF})),
            "x declares 4294967295 x 4294967295 x 4294967295 bytes: at most "
            "1073741824 are supported");
  const auto lies = packed(header({1000, 1000, 1000}));
  EXPECT_EQ(says(lies), "x declares 1000 x 1000 x 1000 bytes after a header "
                        "of 16 and cannot hold more than "
                          + std::to_string(lies.size() * 1032)
                          + " in all: get another copy");
  EXPECT_EQ(
    says(header({0, 0xFFFFFFFF, 1})),
    "x declares 0 x 4294967295 x 1 bytes: at most 1073741824 are supported");
  EXPECT_LT(memory::used().peak, before + (1 << 20));
}

TEST_F(Idx, ABombIsDecompressedOnlyToItsDeclaredSize) {
  const auto bomb = packed(header({10}) + std::string(50'000'000, '\0'));
  const auto before = memory::used().peak;
  EXPECT_EQ(
    says(bomb),
    "x continues after the data that its header declares: get another copy");
  EXPECT_LT(memory::used().peak, before + (1 << 20));
}

TEST_F(Idx, RejectsEveryTruncation) {
  for (const auto& whole : {three_images(), packed(three_images())})
    for (std::size_t size = 0; size < whole.size(); ++size)
      EXPECT_NE(says(whole.substr(0, size)), "") << "cut to " << size;
}

TEST_F(Idx, RejectsEveryFlippedBitThatChangesTheShape) {
  const auto valid = three_images();
  for (std::size_t bit = 0; bit < 8 * valid.size(); ++bit) {
    auto bad = valid;
    bad[bit / 8] = char(bad[bit / 8] ^ 1 << bit % 8);
    EXPECT_EQ(says(bad) == "", bit / 8 >= 16) << "bit " << bit;
  }
}

TEST_F(Idx, NoFlippedBitOfACompressedFileChangesTheData) {
  const auto valid = packed(three_images());
  put("valid", valid);
  const auto wanted = read_idx(folder / "valid");
  // Number of bits that the reader ignores, such as those of a time stamp.
  std::size_t harmless = 0;
  for (std::size_t bit = 0; bit < 8 * valid.size(); ++bit) {
    auto bad = valid;
    bad[bit / 8] = char(bad[bit / 8] ^ 1 << bit % 8);
    if (says(bad) != "")
      continue;
    EXPECT_TRUE(same_bits(read_idx(folder / "x"), wanted)) << "bit " << bit;
    ++harmless;
  }
  EXPECT_LE(harmless, 8u * 7);
}

TEST_F(Idx, AnyBytesAreReadOrRejectedInOneSentence) {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    std::mt19937_64 rng{seed};
    auto text = rng() % 2 ? three_images() : packed(three_images());
    for (auto changes = 1 + rng() % 8; changes > 0; --changes)
      switch (const auto offset = rng() % text.size(); rng() % 3) {
        case 0:
          text[offset] = char(rng());
          break;
        case 1:
          text.insert(offset, 1 + rng() % 9, char(rng()));
          break;
        default:
          if (text.size() > 10)
            text.erase(offset, 1 + rng() % 3);
      }
    put("x", text);
    try {
      EXPECT_LE(read_idx(folder / "x").bytes(), 200u) << "seed " << seed;
    } catch (const std::runtime_error& x) {
      EXPECT_NE(std::string{x.what()}.find(": "), std::string::npos)
        << "seed " << seed << ": " << x.what();
    }
  }
}

TEST_F(Idx, AFolderWithTrainAndTestIsUsedAsItIs) {
  put_set("train", 5);
  put_set("t10k", 3);
  const auto [train, test] = mnist(folder);
  EXPECT_EQ(train.size(), 5u);
  EXPECT_EQ(test.size(), 3u);
  EXPECT_EQ(train.classes(), 10);
  const auto x = test.examples(0, 3);
  EXPECT_TRUE(same_bits(x.inputs, tensor::full({3, 1, 1, 1}, 1)));
  EXPECT_TRUE(same_bits(x.labels, tensor::full({3}, 3, dtype::int32)));
}

TEST_F(Idx, AFolderWithoutTrainIsSplit) {
  put_set("t10k", 8003);
  const auto [train, test] = mnist(folder);
  EXPECT_EQ(train.size(), 8000u);
  EXPECT_EQ(test.size(), 3u);
  put_set("t10k", 8000);
  EXPECT_EQ(complaint([&] { mnist(folder); }),
            folder.string()
              + " holds only 8000 examples (t10k), and no train: more than "
                "8000 are needed to train and to test");
}

TEST_F(Idx, AMissingFileOfAFolderIsNamed) {
  const auto prefix = folder.string();
  EXPECT_EQ(complaint([&] { mnist(folder); }),
            prefix
              + " holds neither t10k-images-idx3-ubyte nor "
                "t10k-images-idx3-ubyte.gz: put the MNIST files there");
  put_set("t10k", 3);
  put("train-labels-idx1-ubyte", header({0}));
  EXPECT_EQ(complaint([&] { mnist(folder); }),
            prefix
              + " holds neither train-images-idx3-ubyte nor "
                "train-images-idx3-ubyte.gz: put the MNIST files there");
  EXPECT_EQ(complaint([&] { mnist(folder / "none"); }),
            (folder / "none").string()
              + " is not a folder: give the folder that holds the MNIST files");
}

TEST_F(Idx, ImagesAndLabelsMustBelongTogether) {
  put_set("train", 5);
  put_set("t10k", 3);
  put("t10k-labels-idx1-ubyte", header({2}) + "\1\2");
  EXPECT_EQ(complaint([&] { mnist(folder); }),
            (folder / "t10k-images-idx3-ubyte").string()
              + " holds 3 images and "
              + (folder / "t10k-labels-idx1-ubyte").string()
              + " an array [2] of labels: use files of one set");
  put("t10k-labels-idx1-ubyte", header({3}) + "\1\12\2");
  EXPECT_EQ(complaint([&] { mnist(folder); }),
            (folder / "t10k-labels-idx1-ubyte").string()
              + ": label 10 of example 1 is not in [0, 10): number the classes "
                "from 0 on");
  put("t10k-labels-idx1-ubyte", header({3}) + "\1\2\3");
  put("t10k-images-idx3-ubyte", header({3, 2, 1}) + "123456");
  EXPECT_EQ(complaint([&] { mnist(folder); }),
            folder.string()
              + " holds images [1, 1, 1] for training and [2, 1, 1] for "
                "testing: use files of one set");
}

TEST(Mnist, HasItsPublishedContent) {
  const auto* data = std::getenv("TROUPE_DATA_DIR");
  const auto at = std::filesystem::path{data ? data : ""} / "mnist";
  if (!std::filesystem::exists(at))
    GTEST_SKIP() << "TROUPE_DATA_DIR names no folder with mnist/ in it";
  const auto [train, test] = mnist(at);
  EXPECT_EQ(train.size(), 8000u);
  EXPECT_EQ(test.size(), 2000u);
  EXPECT_EQ(train.element(), (tensor_spec{{28, 28, 1}, dtype::float32}));
  const auto first = train.examples(0, 10);
  EXPECT_TRUE(same_bits(first.labels, tensor::of<std::int32_t>(
                                        {10}, {7, 2, 1, 0, 4, 1, 4, 9, 5, 9})));
  const auto last = test.examples(1990, 2000);
  EXPECT_TRUE(same_bits(last.labels, tensor::of<std::int32_t>(
                                       {10}, {7, 8, 9, 0, 1, 2, 3, 4, 5, 6})));
  // The upper bar of the first image, a seven, is in row 7, counted from 0.
  const auto seven = first.inputs.range(7 * 28 + 6, 7 * 28 + 9);
  EXPECT_EQ(seven.data<float>()[0], 84.0f / 255);
  EXPECT_EQ(seven.data<float>()[1], 185.0f / 255);
  EXPECT_EQ(seven.data<float>()[2], 159.0f / 255);
}

} // namespace
} // namespace troupe::data
