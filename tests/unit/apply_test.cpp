// Updates of tensors in memory by the patches of a checkpoint.
#include "files/delta/apply.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "support/patched_files.h"
#include <doctest/doctest.h>

namespace espalier {
namespace {

using testing::Bytes;
using testing::chain;
using testing::Files;
using testing::kMiB;
using testing::Random;
using testing::state_of;
using testing::weights_at;

TensorRef weights_in(const CheckpointFile& file) { return *file.state().at("weights")->tensor(); }

Result<PreparedUpdate> prepare(const CheckpointFile& file, Bytes& live,
                               const ApplyOptions& options = {}) {
  const LiveTensor tensor{weights_in(file), live};
  return PreparedUpdate::prepare(file, std::span(&tensor, 1), options);
}

TEST_CASE("An update brings tensors of any earlier step to that of the file, and can be repeated") {
  Files files = chain(4);
  const CheckpointFile file = files.open("3");
  files["0"].assign(files["0"].size(), std::byte{});  // The base itself is not needed.
  const Bytes wanted = weights_at(3);
  for (std::uint64_t step = 0; step <= 3; ++step) {
    CAPTURE(step);
    Bytes live = weights_at(step);
    const Bytes before = live;
    auto update = prepare(file, live);
    REQUIRE_MESSAGE(update, update.error().describe());
    CHECK(live == before);
    const auto& counts = update->counts();
    CHECK(counts.chunks == 3);
    CHECK(counts.patched == (step == 3 ? 0 : 3));
    CHECK(counts.unchanged == (step == 3 ? 3 : 0));
    CHECK(counts.read == 0);
    std::uint64_t differing = 0;
    for (std::size_t i = 0; i < live.size(); i += 2) {
      differing += std::memcmp(&live[i], &wanted[i], 2) != 0 ? 1 : 0;
    }
    CHECK(counts.changed_bytes == 2 * differing);
    update->commit();
    CHECK(live == wanted);
    update->commit();
    CHECK(live == wanted);
    auto again = prepare(file, live);
    REQUIRE(again);
    CHECK(again->counts().unchanged == 3);
  }
}

TEST_CASE("What is of no step that the file knows is refused, and is read on request") {
  Files files = chain(3);
  const CheckpointFile file = files.open("2");
  Bytes live = weights_at(0);
  live[kMiB + 5] ^= std::byte{1};
  const Bytes before = live;
  const auto refused = prepare(file, live);
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::kBaseMismatch);
  CHECK(refused.error().path == "weights");
  CHECK(refused.error().message.find("MiB number 1)") != std::string::npos);
  CHECK(live == before);
  auto update = prepare(file, live, {.read_others = true});
  REQUIRE(update);
  CHECK(update->counts().read == 1);
  CHECK(update->counts().patched == 2);
  update->commit();
  CHECK(live == weights_at(2));
}

TEST_CASE("A chunk that is stored whole replaces whatever is there") {
  Files files = chain(1);
  Bytes weights = weights_at(0);
  Random random(3);
  for (std::size_t i = 0; i < kMiB; ++i) weights[i] = static_cast<std::byte>(random.below(256));
  files.save("1", state_of(weights, 1), "0");
  const CheckpointFile file = files.open("1");
  Bytes live = weights_at(0);
  live[0] ^= std::byte{1};
  auto update = prepare(file, live);
  REQUIRE_MESSAGE(update, update.error().describe());
  CHECK(update->counts().read == 1);
  CHECK(update->counts().unchanged == 2);
  update->commit();
  CHECK(live == weights);
}

TEST_CASE("Missing and damaged patches are errors before anything changes") {
  Files files = chain(3);
  Bytes live = weights_at(0);
  const Bytes before = live;
  {
    Files without = files;
    without.remove("1");
    const CheckpointFile file = without.open("2");
    CHECK(prepare(file, live).error().code == ErrorCode::kFileMissing);
    Bytes later = weights_at(1);
    CHECK(prepare(file, later).has_value());  // needs only the last patch
  }
  {
    const CheckpointFile file = files.open("2");
    Bytes damaged = files["2"];
    damaged.back() ^= std::byte{1};
    files["2"] = damaged;
    const auto refused = prepare(file, live);
    REQUIRE_FALSE(refused);
    CHECK(refused.error().code == ErrorCode::kChunkCorrupt);
    CHECK(refused.error().path == "weights");
  }
  CHECK(live == before);
}

TEST_CASE("The memory of an update is checked") {
  Files files = chain(2);
  const CheckpointFile file = files.open("1");
  const TensorRef tensor = weights_in(file);
  Bytes live = weights_at(0);
  Bytes other = live;
  const auto code_of = [&](const std::vector<LiveTensor>& tensors,
                           const ApplyOptions& options = {}) {
    const auto update = PreparedUpdate::prepare(file, tensors, options);
    return update ? std::optional<ErrorCode>() : update.error().code;
  };
  const MutableByteSpan all(live);
  CHECK(code_of({{tensor, all.first(10)}}) == ErrorCode::kInvalidArgument);
  Bytes longer(live.size() + 2);
  CHECK(code_of({{tensor, MutableByteSpan(longer).first(live.size())},
                 {tensor, MutableByteSpan(longer).last(live.size())}}) ==
        ErrorCode::kInvalidArgument);
  const std::atomic<bool> cancel = true;
  CHECK(code_of({{tensor, all}}, {.cancel = &cancel}) == ErrorCode::kCancelled);
  // Tied tensors are one; copies of it are several.
  const std::vector<LiveTensor> tied = {{tensor, all}, {tensor, other}, {tensor, all}};
  std::uint64_t done = 0;
  std::uint64_t total = 0;
  auto update = PreparedUpdate::prepare(file, tied, {.progress = [&](auto now, auto all_of_it) {
                                          done = now;
                                          total = all_of_it;
                                        }});
  REQUIRE(update);
  CHECK(done == 2 * live.size());
  CHECK(total == done);
  update->commit();
  CHECK(live == weights_at(1));
  CHECK(other == live);
}

TEST_CASE("Elements of every width are patched, and bits are never taken for numbers") {
  for (const DType dtype : {DType::kU8, DType::kF16, DType::kF32, DType::kF64, DType::kC128}) {
    CAPTURE(dtype_name(dtype));
    const std::size_t element = dtype_bits(dtype) / 8;
    Bytes before(3000 * element + element, std::byte{0});
    Bytes after = before;
    after[7 * element + element - 1] = std::byte{0x80};                   // -0
    std::fill_n(after.data() + 100 * element, element, std::byte{0xFF});  // a NaN
    after.back() = std::byte{0x7F};
    const auto state = [&](const Bytes& bytes) {
      Tensor tensor;
      tensor.dtype = dtype;
      tensor.shape = {bytes.size() / element};
      tensor.data = TensorData::owned(bytes);
      return Value::dict(
          {{"weights", Value::tensor(std::move(tensor))}, {"rest", Value::bytes(Bytes(200'000))}});
    };
    Files files;
    files.put("0", *save_to_memory(state(before)));
    files.save("1", state(after), "0", {.most_of_full = 10});
    const CheckpointFile file = files.open("1");
    REQUIRE(file.checkpoint().catalog().bases(0).size() == 1);
    Bytes live = before;
    auto update = prepare(file, live);
    REQUIRE_MESSAGE(update, update.error().describe());
    update->commit();
    CHECK(live == after);
  }
}

}  // namespace
}  // namespace espalier
