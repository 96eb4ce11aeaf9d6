#include "troupe/actors/core/log.hpp"
#include "troupe/tests/support/scratch.hpp"
#include "troupe/tests/training/small_jobs.hpp"
#include "troupe/training/checkpoint/saved_model.hpp"
#include "troupe/training/support/sha256.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <random>
#include <regex>
#include <sys/syscall.h>
#include <unistd.h>
#include <utility>

namespace {

using namespace troupe;

/// Called by the next `fsync` of this thread, which clears it first.
thread_local std::function<void()> in_next_fsync;

} // namespace

/// Replaces the function of the C library, so that a test can act while a file
/// is written to the disk.
extern "C" int fsync(int file) {
  if (const auto fn = std::exchange(in_next_fsync, nullptr))
    fn();
  return static_cast<int>(::syscall(SYS_fsync, file));
}

namespace {

class SavedModel : public scratch_test {
protected:
  /// Returns the bytes of a saved model with an interrupted fit. Such a file
  /// has every optional part of the format.
  std::string interrupted_model_bytes() {
    model model{small_net(), adam{.beta1 = 0.8f}, {.seed = 77}};
    model.fit(
      digits_200().batch(16),
      {.epochs = 3,
       .early_stopping = early_stopping{.monitor = monitored_metric::loss},
       .max_steps = 20});
    model.save(folder / "good", "a note");
    hash_ = model.weights_sha256();
    return text_of("good");
  }

  std::string load_error(std::string_view bytes) {
    put("bad", bytes);
    try {
      model::load(folder / "bad");
    } catch (const std::runtime_error& e) {
      return e.what();
    }
    return "no error";
  }

  void expect_load_error(std::string_view bytes, const char* what) {
    const auto said = load_error(bytes);
    EXPECT_NE(said.find(what), said.npos) << said;
    EXPECT_NE(said.find("bad"), said.npos) << said;
    EXPECT_EQ(said.find('\n'), said.npos) << said;
  }

  /// Replaces a text in the header, and corrects the header's length and the
  /// checksum.
  std::string with_replaced_header(std::string bytes,
                                   const std::string& old_text,
                                   const std::string& new_text) {
    const auto at = bytes.find(old_text);
    EXPECT_NE(at, bytes.npos) << old_text;
    bytes.replace(at, old_text.size(), new_text);
    std::uint32_t length = 0;
    std::memcpy(&length, bytes.data() + 12, sizeof length);
    length += static_cast<std::uint32_t>(new_text.size() - old_text.size());
    std::memcpy(bytes.data() + 12, &length, sizeof length);
    bytes.resize(bytes.size() - 32);
    const auto sum = sha256{}.add(std::as_bytes(std::span{bytes})).finish();
    return bytes + std::string{reinterpret_cast<const char*>(sum.data()), 32};
  }

  /// Writes the metrics in the header as the versions 1 and 2 do: the accuracy
  /// is the only metric.
  std::string with_old_metrics(std::string bytes) {
    const auto replace = [&](const char* pattern, const char* format) {
      const std::regex wanted{pattern};
      std::smatch found;
      int count = 0;
      for (; std::regex_search(bytes, found, wanted); ++count) {
        const auto old_text = found.str();
        const auto new_text = found.format(format);
        bytes = with_replaced_header(bytes, old_text, new_text);
      }
      EXPECT_GT(count, 0) << pattern;
    };
    replace(R"x("sums":\[([^,]*),0.0,([^,]*),[^\]]*\])x",
            R"x("loss_sum":$1,"correct":$2)x");
    replace(R"x("metrics":"accuracy \(2\)",)x", "");
    replace(R"x("metrics":\[\{"name":"accuracy","value":([^}]*)\}\])x",
            R"x("accuracy":$1)x");
    replace(R"x("validation_metrics":\[\])x",
            R"x("validation_accuracy":null)x");
    return bytes;
  }

  std::string hash_;
};

TEST_F(SavedModel, RoundTripIsBitwiseEqual) {
  const auto bytes = interrupted_model_bytes();
  const auto back = model::load(folder / "good");
  EXPECT_EQ(back.weights_sha256(), hash_);
  EXPECT_EQ(back.steps(), 20u);
  EXPECT_EQ(back.seed(), 77u);
  EXPECT_EQ(back.note(), "a note");
  EXPECT_EQ(saved_note(folder / "good"), "a note");
  EXPECT_TRUE(back.interrupted());
  back.save(folder / "again", "a note");
  EXPECT_EQ(text_of("again"), bytes);
}

TEST_F(SavedModel, VersionOneIsReadAsASingleFit) {
  auto bytes = interrupted_model_bytes();
  bytes[8] = 1;
  bytes = with_old_metrics(bytes);
  bytes = with_replaced_header(bytes, R"("first_pass":0,)", "");
  bytes = with_replaced_header(bytes, R"("passes":2,)", "");
  put("old", bytes);
  const auto back = model::load(folder / "old");
  EXPECT_EQ(back.weights_sha256(), hash_);
  EXPECT_EQ(back.epochs_done(), 1u);
  back.save(folder / "again", "a note");
  EXPECT_EQ(text_of("again"), text_of("good"));
}

TEST_F(SavedModel, VersionTwoHasTheAccuracyOnly) {
  auto bytes = interrupted_model_bytes();
  bytes[8] = 2;
  put("old", with_old_metrics(bytes));
  auto back = model::load(folder / "old");
  back.save(folder / "again", "a note");
  EXPECT_EQ(text_of("again"), text_of("good"));
}

TEST_F(SavedModel, LoadsIntoAnotherStrategy) {
  interrupted_model_bytes();
  const auto three = turns(3);
  const auto scope = three.scope();
  EXPECT_EQ(model::load(folder / "good").weights_sha256(), hash_);
}

TEST_F(SavedModel, EveryTruncationIsRejected) {
  const auto bytes = interrupted_model_bytes();
  std::mt19937 rng{1};
  for (int i = 0; i < 200; ++i) {
    const auto length = i < 64 ? std::size_t(i) : rng() % bytes.size();
    const auto said = load_error(bytes.substr(0, length));
    ASSERT_TRUE(said.find("truncated") != said.npos
                || said.find("not a saved model") != said.npos)
      << length << ": " << said;
  }
}

TEST_F(SavedModel, EveryFlippedBitIsRejected) {
  const auto bytes = interrupted_model_bytes();
  std::mt19937 rng{2};
  for (int i = 0; i < 300; ++i) {
    auto flipped = bytes;
    const auto at = i < 100 ? std::size_t(i) : rng() % bytes.size();
    flipped[at] = static_cast<char>(flipped[at] ^ (1 << rng() % 8));
    ASSERT_NE(load_error(flipped), "no error") << "byte " << at;
  }
}

TEST_F(SavedModel, RejectionIsOneSentence) {
  const auto bytes = interrupted_model_bytes();
  expect_load_error("", "is not a saved model");
  expect_load_error("hello, world, this is a text file of mine",
                    "not a saved model");
  expect_load_error(bytes + "x", "longer than its header requires");
  auto newer = bytes;
  newer[8] = 5;
  expect_load_error(newer, "version 5");
  auto huge = bytes;
  huge[15] = '\x7f';
  expect_load_error(huge, "is damaged");
  auto flipped = bytes;
  flipped[bytes.size() - 100] ^= 1;
  expect_load_error(flipped, "checksum");
}

TEST_F(SavedModel, ClaimedSizesAllocateNoMemory) {
  const auto bytes = interrupted_model_bytes();
  // The file has 300 KB. With U = 2^20 units instead of 24, the model has 785 U
  // weights in its first layer and 10 U + 10 in its second. These are 3.3 GB as
  // float32. The header claims four buffers of this size, 13 GB in all: the
  // weights, the two slots of Adam and the best weights.
  auto huge =
    with_replaced_header(bytes, R"("units":24)", R"("units":1048576)");
  expect_load_error(huge, "its parameters do not match its model");
  huge = with_replaced_header(huge, "[784,24]", "[784,1048576]");
  huge = with_replaced_header(huge, "[24]", "[1048576]");
  huge = with_replaced_header(huge, "[24,10]", "[1048576,10]");
  expect_load_error(huge, "is truncated");
  expect_load_error(with_replaced_header(bytes, R"("shape":[784,24])",
                                         R"("shape":[784,24000])"),
                    "do not match its model");
  expect_load_error(
    with_replaced_header(bytes, R"("name":"adam")", R"("name":"sgd")"),
    "cannot be used");
}

TEST_F(SavedModel, DeeplyNestedHeaderIsRejected) {
  const auto bytes = interrupted_model_bytes();
  for (const std::size_t depth : {300, 200'000}) {
    const auto deep =
      with_replaced_header(bytes, R"("input":[28,28,1])",
                           R"("input":)" + std::string(depth / 2, '[')
                             + std::string(depth / 2, ']'));
    expect_load_error(deep, "brackets nested more than 101 deep");
  }
}

TEST_F(SavedModel, ErrorNamesTheHeaderField) {
  const auto bytes = interrupted_model_bytes();
  expect_load_error(with_replaced_header(bytes, R"("seed":77)", R"("seed":-7)"),
                    "\"seed\"");
  expect_load_error(
    with_replaced_header(bytes, R"("steps":20)", R"("stepz":20)"),
    "has no \"steps\"");
  expect_load_error(
    with_replaced_header(bytes, R"("passes":2)", R"("passez":2)"),
    "has no \"passes\"");
  expect_load_error(
    with_replaced_header(bytes, R"("first_pass":0)", R"("first_pass":2)"),
    "\"fit.first_pass\" is greater than \"fit.pass\"");
  expect_load_error(
    with_replaced_header(bytes, R"("loss":"soft)", R"("loss":"hard)"),
    "there is no loss");
  expect_load_error(
    with_replaced_header(bytes, R"("type":"dense")", R"("type":"dance")"),
    "dance");
  expect_load_error(
    with_replaced_header(bytes, R"("beta1":0.8)", R"("beta1":1.8)"), "beta1");
  expect_load_error(
    with_replaced_header(bytes, "[24,10]", "[1,1,1,1,1,1,1,1,1]"),
    "\"parameters[2].shape\" is not a shape");
  expect_load_error(
    with_replaced_header(bytes, "[24,10]", "[9223372036854775808]"),
    "is too large");
  expect_load_error(
    with_replaced_header(bytes, R"("beta1":0.8)", R"("be\nta":"x")"),
    "\"optimizer.numbers.be?ta\" is not a number");
  expect_load_error(
    with_replaced_header(bytes, R"("name":"adam")", R"("name":"a\nm")"),
    "'a?m' is unknown");
}

TEST_F(SavedModel, ErrorNamesAMissingFile) {
  EXPECT_THROW(model::load(folder / "none"), std::runtime_error);
  EXPECT_THROW(model::load(folder), std::runtime_error);
}

// -- files of a job of several processes --------------------------------------

/// A model of a job, whose position the test sets.
class SavedModelOfJob : public SavedModel {
protected:
  SavedModelOfJob() {
    log_to(
      [this](log_level, std::string_view line) { lines_.emplace_back(line); });
  }
  ~SavedModelOfJob() override { log_to(nullptr); }

  /// Saves the model after one more step, at a position of a job.
  void save(std::uint64_t job, std::uint64_t call) {
    model_.fit(digits_200().batch(100), {.max_steps = 1});
    auto& state = *model_.made_in().state();
    state.job_id = job;
    state.calls = call;
    state.loop_calls = 0;
    model_.save(folder / "model");
  }
  std::uint64_t saved_steps() const {
    return header_of(folder / "model").steps;
  }

  const one_device_strategy strategy_{"cpu:0"};
  const strategy_scope scope_{strategy_.scope()};
  model model_{small_net(), sgd{}};
  std::vector<std::string> lines_; ///< Warnings.
};

TEST_F(SavedModelOfJob, HasThePositionOfTheJob) {
  save(0xfedcba9876543210, 5);
  EXPECT_EQ(header_of(folder / "model").saved_at,
            (saved_position{.job = 0xfedcba9876543210, .view = 0, .call = 5}));
  save(0, 0);
  EXPECT_FALSE(header_of(folder / "model").saved_at);
}

TEST_F(SavedModelOfJob, KeepsAFileOfALaterPosition) {
  save(7, 5);
  save(7, 4);
  EXPECT_EQ(saved_steps(), 1u);
  EXPECT_EQ(lines_.size(), 1u);
  EXPECT_EQ(files(), 1u);
  save(7, 5); // the same position
  EXPECT_EQ(saved_steps(), 3u);
}

/// The job saves the model later, without this process, while this process
/// waits for the disk.
TEST_F(SavedModelOfJob, KeepsAFileOfALaterPositionThatAppearsInItsSync) {
  save(7, 5);
  const auto later = text_of("model");
  save(7, 5);
  bool has_synced = false;
  in_next_fsync = [&] {
    has_synced = true;
    put("model", later);
  };
  save(7, 4);
  EXPECT_TRUE(has_synced);
  EXPECT_EQ(saved_steps(), 1u);
  EXPECT_EQ(lines_.size(), 1u);
  EXPECT_EQ(files(), 1u);
}

TEST_F(SavedModelOfJob, ReplacesTheFileOfAnotherJob) {
  save(7, 5);
  save(8, 1);
  EXPECT_EQ(saved_steps(), 2u);
  save(0, 0); // a job of one process
  EXPECT_EQ(saved_steps(), 3u);
  save(7, 1);
  EXPECT_EQ(saved_steps(), 4u);
  EXPECT_TRUE(lines_.empty());
}

TEST_F(SavedModelOfJob, ReplacesADamagedFileWithAWarning) {
  save(7, 5);
  const auto good = text_of("model");
  auto flipped = good;
  flipped[flipped.size() - 40] ^= 1; // in the elements
  const auto with_id = [&](const std::string& id) {
    return with_replaced_header(good, R"("id":"0000000000000007")",
                                R"("id":")" + id + '"');
  };
  const auto deep = good.substr(0, 16) + std::string(good.size() - 16, '[');
  for (const auto& bytes :
       {flipped, with_id("x"), with_id("7"), with_id("00000000000000007"), deep,
        good.substr(0, 100), std::string{"a text"}, std::string{}}) {
    put("model", bytes);
    lines_.clear();
    save(7, 4);
    EXPECT_EQ(lines_.size(), 1u);
    EXPECT_EQ(header_of(folder / "model").saved_at->call, 4u);
  }
}

TEST_F(SavedModelOfJob, DoesNotReadWhatIsNoFile) {
  model_.made_in().state()->job_id = 7;
  model_.save("/dev/null");
  EXPECT_TRUE(lines_.empty());
}

TEST(SavedPosition, IsLaterByItsViewAndThenByItsCall) {
  const saved_position at{.job = 7, .view = 2, .call = 5};
  EXPECT_FALSE(is_later(at, at));
  EXPECT_TRUE(is_later(at, {.job = 7, .view = 2, .call = 4}));
  EXPECT_TRUE(is_later(at, {.job = 7, .view = 1, .call = 6}));
  EXPECT_FALSE(is_later(at, {.job = 7, .view = 3, .call = 4}));
  EXPECT_FALSE(is_later(at, {.job = 8, .view = 1, .call = 4}));
}

} // namespace
