#include "files/open/made_source.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include "espalier/limits.h"

namespace espalier {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

std::byte byte_at(std::uint64_t offset) {
  return static_cast<std::byte>(offset * 7 + offset / kMiB);
}

// What the makers of a test did.
struct Counts {
  std::atomic<unsigned> streams{0};
  std::atomic<unsigned> wholes{0};
  std::atomic<std::uint64_t> bytes{0};
};

struct Kind {
  bool can_stream = true;
  bool is_damaged = false;
};

// Makes byte_at() of nothing but one byte, which must come, and finds at the end what `kind` says.
class Stream final : public MakingStream {
 public:
  Stream(Counts& counts, Kind kind, std::uint64_t length)
      : counts_(counts), kind_(kind), length_(length) {}

  std::span<const Extent> needs() const override {
    return is_fed_ ? std::span<const Extent>() : std::span(&need_, 1);
  }
  Result<std::size_t> feed(const Extent&, ByteSpan bytes, MutableByteSpan out) override {
    is_fed_ = is_fed_ || !bytes.empty();
    // In parts that fit no block.
    const auto count =
        static_cast<std::size_t>(std::min<std::uint64_t>({out.size(), length_ - made_, 77'777}));
    for (std::size_t i = 0; i < count; ++i) out[i] = byte_at(made_ + i);
    made_ += count;
    counts_.bytes += count;
    return count;
  }
  Result<void> finish() override {
    if (kind_.is_damaged) return fail(ErrorCode::kForeignInvalid, "the checksum is wrong");
    return made_ == length_ ? Result<void>{} : fail(ErrorCode::kIncomplete, "more bytes");
  }

 private:
  Counts& counts_;
  const Kind kind_;
  const std::uint64_t length_;
  Extent need_{0, 0, 1};
  bool is_fed_ = false;
  std::uint64_t made_ = 0;
};

class Maker final : public FileMaker {
 public:
  Maker(Counts& counts, Kind kind) : counts_(counts), kind_(kind) {}

  std::unique_ptr<MakingMachine> start(MutableByteSpan out) const override {
    ++counts_.wholes;
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = byte_at(i);
    return std::make_unique<Done>();
  }
  std::unique_ptr<MakingStream> stream(std::uint64_t length) const override {
    if (!kind_.can_stream) return nullptr;
    ++counts_.streams;
    return std::make_unique<Stream>(counts_, kind_, length);
  }
  bool has_checksum() const override { return kind_.can_stream; }

 private:
  struct Done final : MakingMachine {
    std::span<const Extent> needs() const override { return {}; }
    Result<void> feed(const Extent&, ByteSpan) override { return {}; }
    Result<void> finish() override { return {}; }
  };

  Counts& counts_;
  Kind kind_;
};

struct Made {
  explicit Made(std::uint64_t file_length, Kind kind = {}, const Limits& limits = {},
                std::shared_ptr<MadeMemory> shared = nullptr)
      : length(file_length),
        source(make_source(
            {.length = length, .maker = std::make_shared<Maker>(counts, kind)},
            memory_source(std::vector<std::byte>(1)),
            shared ? std::move(shared) : std::make_shared<MadeMemory>(limits.made_bytes))) {}

  // Whether these bytes are right.
  Result<bool> read(std::uint64_t offset, std::uint64_t bytes) const {
    std::vector<std::byte> scratch(static_cast<std::size_t>(bytes));
    const auto found = source->read({0, offset, bytes}, scratch);
    if (!found) return propagate(found);
    for (std::size_t i = 0; i < found->size(); ++i) {
      if ((*found)[i] != byte_at(offset + i)) return false;
    }
    return found->size() == bytes;
  }
  // All of it, in order; or the error.
  Result<bool> read_all(std::uint64_t step = kMiB) const {
    source->announce({0, 0, length});
    for (std::uint64_t at = 0; at < length; at += step) {
      const auto ok = read(at, std::min(step, length - at));
      if (!ok || !*ok) return ok;
    }
    return true;
  }

  Counts counts;
  std::uint64_t length;
  std::shared_ptr<const Source> source;
};

ErrorCode code_of(const Result<bool>& result) {
  REQUIRE_FALSE(result);
  return result.error().code;
}

TEST_CASE("A made file is read in order by one pass, also by threads") {
  for (const std::uint64_t length :
       {std::uint64_t{1}, kMiB, 5 * kMiB + 3, 32 * kMiB, 80 * kMiB + 1}) {
    CAPTURE(length);
    const Made made(length);
    CHECK(made.read_all() == true);
    CHECK(made.counts.streams == 1);
    CHECK(made.counts.bytes == length);
    CHECK(code_of(made.read(length, 1)) == ErrorCode::kTruncated);
    CHECK(made.read(length, 0) == true);
  }
  // A thread that comes late does not begin another pass: its chunk waits.
  const Made late(80 * kMiB);
  late.source->announce({0, 0, 80 * kMiB});
  for (std::uint64_t at = 0; at < 80; ++at) {
    if (at != 1 && at != 5 && at != 6) CHECK(late.read(at * kMiB, kMiB) == true);
  }
  for (const std::uint64_t at : {6u, 1u, 5u}) CHECK(late.read(at * kMiB, kMiB) == true);
  CHECK(late.counts.streams == 1);
  // Others do not.
  CHECK(late.read(3 * kMiB, kMiB) == true);
  CHECK(late.counts.streams == 2);

  const Made made(80 * kMiB);
  made.source->announce({0, kMiB, 79 * kMiB});
  std::atomic<std::uint64_t> next = 1;
  std::atomic<unsigned> wrong = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (std::uint64_t at = next++; at < 80; at = next++) {
        const auto ok = made.read(at * kMiB, kMiB);
        if (!ok || !*ok) ++wrong;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(made.counts.wholes == 0);
}

TEST_CASE("A made file has its checksum compared before a part of it is given") {
  const Kind damaged{.is_damaged = true};
  // A short one always.
  const Made brief(2 * kMiB, damaged);
  CHECK(code_of(brief.read(0, 1)) == ErrorCode::kForeignInvalid);
  // A long one before, unless its end comes: then there.
  const Made part(40 * kMiB, damaged);
  CHECK(code_of(part.read(0, 1)) == ErrorCode::kForeignInvalid);
  CHECK(code_of(part.read(5, 1)) == ErrorCode::kForeignInvalid);
  const Made slice(40 * kMiB, damaged);
  slice.source->announce({0, 0, 39 * kMiB});
  CHECK(code_of(slice.read(0, 1)) == ErrorCode::kForeignInvalid);
  const Made all(40 * kMiB, damaged);
  all.source->announce({0, 0, 40 * kMiB});
  CHECK(all.read(38 * kMiB, kMiB) == true);
  CHECK(code_of(all.read(39 * kMiB, kMiB)) == ErrorCode::kForeignInvalid);
  CHECK(code_of(all.read(39 * kMiB, 1)) == ErrorCode::kForeignInvalid);
  // An announcement ends with the next one, also if the call that made it gave up.
  const Made given_up(40 * kMiB, damaged);
  given_up.source->announce({0, 0, 40 * kMiB});
  CHECK(given_up.read(kMiB, kMiB) == true);
  given_up.source->announce({0, 3 * kMiB, kMiB});
  CHECK(code_of(given_up.read(3 * kMiB, 1)) == ErrorCode::kForeignInvalid);
  // One pass to compare, and one to read.
  const Made good(40 * kMiB);
  CHECK(good.read(3 * kMiB, 2) == true);
  CHECK(good.counts.streams == 2);
  CHECK(good.counts.bytes <= 45 * kMiB);
  CHECK(good.read(kMiB, 2) == true);
  CHECK(good.counts.streams == 2);
}

TEST_CASE("A made file that is read up and down is kept whole, within the limit") {
  const Made made(40 * kMiB);
  for (int pass = 1; pass <= 4; ++pass) {
    CHECK(made.read_all(4 * kMiB) == true);
    CHECK(made.counts.streams == static_cast<unsigned>(pass));
  }
  CHECK(made.counts.wholes == 0);
  for (int i = 0; i < 3; ++i) {
    for (const std::uint64_t at : {0 * kMiB, 39 * kMiB, 20 * kMiB})
      CHECK(made.read(at, kMiB) == true);
  }
  CHECK(made.counts.streams == 4);
  CHECK(made.counts.wholes == 1);

  const Made refused(40 * kMiB, {}, {.made_bytes = 40 * kMiB - 1});
  for (int pass = 1; pass <= 4; ++pass) CHECK(refused.read_all(4 * kMiB) == true);
  CHECK(code_of(refused.read(0, 1)) == ErrorCode::kLimitExceeded);
  // At once, if it cannot be a stream.
  const Made whole(3 * kMiB, {.can_stream = false});
  CHECK(whole.read(kMiB, kMiB) == true);
  CHECK(whole.read(0, kMiB) == true);
  CHECK(whole.counts.wholes == 1);
  const Made too_large(3 * kMiB, {.can_stream = false}, {.made_bytes = 3 * kMiB - 1});
  CHECK(code_of(too_large.read(0, 1)) == ErrorCode::kLimitExceeded);
}

TEST_CASE("Made files keep 64 MiB together, those that were used last") {
  const auto memory = std::make_shared<MadeMemory>(0);
  std::vector<std::unique_ptr<Made>> files;
  for (int i = 0; i < 5; ++i) {
    files.push_back(std::make_unique<Made>(20 * kMiB, Kind{}, Limits{}, memory));
    CHECK(files.back()->read(0, kMiB) == true);
  }
  // Three have room.
  for (const int i : {4, 3, 2}) {
    CHECK(files[static_cast<std::size_t>(i)]->read(kMiB, kMiB) == true);
    CHECK(files[static_cast<std::size_t>(i)]->counts.streams == 1);
  }
  CHECK(files[0]->read(kMiB, kMiB) == true);
  CHECK(files[0]->counts.streams == 2);
  CHECK(files[4]->read(kMiB, kMiB) == true);
  CHECK(files[4]->counts.streams == 2);
  CHECK(files[2]->read(kMiB, kMiB) == true);
  CHECK(files[2]->counts.streams == 1);
  // A pass that is under way goes on where it is.
  Made longer(60 * kMiB, {}, {}, memory);
  longer.source->announce({0, 0, 60 * kMiB});
  CHECK(longer.read(0, 40 * kMiB) == true);
  for (const int i : {0, 1, 2, 3, 4}) CHECK(files[static_cast<std::size_t>(i)]->read(0, 1) == true);
  CHECK(longer.read(40 * kMiB, 20 * kMiB) == true);
  CHECK(longer.counts.streams == 1);
}

TEST_CASE("A made file is checked without keeping it") {
  Counts counts;
  const auto source = memory_source(std::vector<std::byte>(1));
  const auto check = [&](Kind kind, const std::function<Result<void>(std::uint64_t)>& made) {
    return check_made_file({.length = 5 * kMiB + 1, .maker = std::make_shared<Maker>(counts, kind)},
                           *source, made);
  };
  std::uint64_t bytes = 0;
  const auto count = [&](std::uint64_t part) -> Result<void> {
    bytes += part;
    return {};
  };
  CHECK(check({}, count));
  CHECK(bytes == 5 * kMiB + 1);
  const auto damaged = check({.is_damaged = true}, count);
  REQUIRE_FALSE(damaged);
  CHECK(damaged.error().code == ErrorCode::kForeignInvalid);
  const auto cancelled = check({}, [](auto) { return fail(ErrorCode::kCancelled, "enough"); });
  REQUIRE_FALSE(cancelled);
  CHECK(cancelled.error().code == ErrorCode::kCancelled);
}

}  // namespace
}  // namespace espalier
