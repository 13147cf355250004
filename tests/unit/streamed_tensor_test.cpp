// Tensors whose bytes come in order: from pipes, and from generators that can only go on.
#include <algorithm>
#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "support/check_error.h"
#include "support/random.h"
#include "support/temporary_folder.h"
#include <doctest/doctest.h>
#include <unistd.h>

#include "espalier/save.h"
#include "espalier/save_foreign.h"

namespace espalier {
namespace {

using testing::check_error;
using testing::TemporaryFolder;
using Bytes = std::vector<std::byte>;

// Numbers that compress a little, so that chunks are of different sizes.
Bytes contents(std::size_t size, std::uint64_t seed) {
  testing::Random random(seed);
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.below(1 + random.below(255)));
  return bytes;
}

Value tensor(std::size_t size, TensorData data) {
  return Value::tensor(Tensor{.dtype = DType::kU8, .shape = {size}, .data = std::move(data)});
}

// A pipe, and a thread that writes to it.
class Pipe {
 public:
  explicit Pipe(Bytes bytes) : bytes_(std::move(bytes)) {
    REQUIRE(::pipe(ends_) == 0);
    writer_ = std::thread([this] {
      for (std::size_t done = 0; done < bytes_.size();) {
        const auto n = ::write(ends_[1], bytes_.data() + done, bytes_.size() - done);
        if (n <= 0) break;
        done += static_cast<std::size_t>(n);
      }
      ::close(ends_[1]);
    });
  }
  ~Pipe() {
    // A save that ended early leaves bytes behind, for which the thread waits.
    Bytes rest(1 << 20);
    while (::read(ends_[0], rest.data(), rest.size()) > 0) {
    }
    writer_.join();
    ::close(ends_[0]);
  }

  Result<void> read(MutableByteSpan out) const {
    while (!out.empty()) {
      const auto n = ::read(ends_[0], out.data(), out.size());
      if (n <= 0) return fail(ErrorCode::kIoError, "the pipe ended early");
      out = out.subspan(static_cast<std::size_t>(n));
    }
    return {};
  }

 private:
  Bytes bytes_;
  int ends_[2] = {-1, -1};
  std::thread writer_;
};

constexpr std::size_t kSizes[] = {3'500'000, 10, 0, 70'000, 1 << 20, (2 << 20) + 1};

// The state: streamed tensors between others; or, for comparison, all in memory. No two streams
// are ever read at once.
Value state(std::vector<std::unique_ptr<Pipe>>& pipes, std::atomic<int>& readers, bool streamed) {
  Value state = Value::dict();
  for (std::size_t i = 0; i < std::size(kSizes); ++i) {
    const std::string number = std::to_string(i);
    state.add("memory" + number, tensor(kSizes[i], TensorData::owned(contents(kSizes[i], 90 + i))));
    Bytes bytes = contents(kSizes[i], i);
    if (!streamed) {
      state.add("stream" + number, tensor(kSizes[i], TensorData::owned(std::move(bytes))));
      continue;
    }
    pipes.push_back(std::make_unique<Pipe>(std::move(bytes)));
    state.add("stream" + number,
              tensor(kSizes[i], TensorData::streamed(
                                    [&readers, pipe = pipes.back().get()](MutableByteSpan out) {
                                      const bool is_alone = ++readers == 1;
                                      auto read = pipe->read(out);
                                      --readers;
                                      if (!is_alone)
                                        read = fail(ErrorCode::kInvalidArgument, "two at once");
                                      return read;
                                    })));
  }
  return state;
}

TEST_CASE("Tensors from pipes give the same file as tensors in memory") {
  std::vector<std::unique_ptr<Pipe>> none;
  std::atomic<int> readers = 0;
  const Value in_memory = state(none, readers, false);
  for (const int level : {0, 1, 4}) {
    const auto expected = save_to_memory(in_memory, {.compression_level = level});
    REQUIRE(expected);
    for (const unsigned threads : {1u, 2u, 5u}) {
      std::vector<std::unique_ptr<Pipe>> pipes;
      const auto saved = save_to_memory(state(pipes, readers, true),
                                        {.threads = threads, .compression_level = level});
      REQUIRE(saved);
      CHECK(*saved == *expected);
    }
  }
  MemorySink expected;
  MemorySink saved;
  std::vector<std::unique_ptr<Pipe>> pipes;
  REQUIRE(save_safetensors(expected, in_memory));
  REQUIRE(save_safetensors(saved, state(pipes, readers, true), {.threads = 5}));
  CHECK(saved.take() == expected.take());
}

TEST_CASE("A stream that fails or throws ends the save, and is not asked again") {
  const TemporaryFolder folder;
  for (const unsigned threads : {1u, 4u}) {
    for (const int level : {0, 1}) {
      for (const bool throws : {false, true}) {
        std::atomic<int> calls = 0;
        const Value broken = Value::dict(
            {{"before", tensor(3'000'000, TensorData::owned(contents(3'000'000, 1)))},
             {"broken",
              tensor(30'000'000, TensorData::streamed([&](MutableByteSpan) -> Result<void> {
                       if (++calls < 4) return {};
                       if (throws) throw std::runtime_error("the peer hung up");
                       return fail(ErrorCode::kIoError, "the peer hung up");
                     }))},
             {"other", tensor(9'000'000, TensorData::streamed([&](MutableByteSpan) -> Result<void> {
                                ++calls;
                                return {};
                              }))}});
        const SaveOptions options{.sync = false, .threads = threads, .compression_level = level};
        const auto attempt = [&] { return save(folder / "file", broken, options); };
        if (throws) {
          CHECK_THROWS_WITH((void)attempt(), "the peer hung up");
        } else {
          check_error(attempt(), ErrorCode::kIoError, "broken", "the peer hung up");
        }
        CHECK(calls == 4);
        CHECK(folder.size() == 0);
        // The bytes that were read are gone.
        check_error(attempt(), ErrorCode::kInvalidArgument, "broken", "can be read once");
        CHECK(calls == 4);
      }
    }
  }
}

TEST_CASE("A failure elsewhere releases the threads that wait for a stream") {
  for (const int level : {0, 1}) {
    Tensor failing{.dtype = DType::kU8, .shape = {100}};
    failing.data = TensorData::produced([](std::uint64_t, MutableByteSpan) -> Result<void> {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      return fail(ErrorCode::kIoError, "no bytes");
    });
    // The first chunk of the stream lies in the piece that fails.
    const Value state = Value::list(
        {Value::tensor(std::move(failing)),
         tensor(20'000'000, TensorData::streamed([](MutableByteSpan) { return Result<void>(); }))});
    check_error(save_to_memory(state, {.threads = 6, .compression_level = level}),
                ErrorCode::kIoError, "0", "no bytes");
  }
}

TEST_CASE("A tensor without a reader is a placeholder") {
  CHECK(TensorData::streamed({}).is_placeholder());
  CHECK(TensorData::streamed([](MutableByteSpan) { return Result<void>(); }).is_streamed());
}

}  // namespace
}  // namespace espalier
