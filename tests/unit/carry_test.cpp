// Saves that take tensors over from another file: the same bytes as a full save, without reading
// them.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "support/copy_ranges.h"
#include "support/equal.h"
#include "support/random.h"
#include "support/random_tree.h"
#include "support/temporary_folder.h"
#include <doctest/doctest.h>

#include "espalier/base/little_endian.h"
#include "espalier/checkpoint_file.h"
#include "espalier/codec/compression_level.h"
#include "espalier/format/access.h"
#include "espalier/save.h"
#include "files/os/file_ops.h"

namespace espalier {
namespace {

using testing::read_whole;
using testing::TemporaryFolder;
using Bytes = std::vector<std::byte>;

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

// Floats that compress somewhat.
Value tensor(std::uint64_t bytes, std::uint64_t seed, DType dtype = DType::kF32) {
  testing::Random random(seed);
  Bytes data(static_cast<std::size_t>(bytes));
  for (std::size_t i = 0; i + 4 <= data.size(); i += 4) {
    const auto bits = static_cast<std::uint32_t>(random.bits());
    store_le(data.data() + i, (bits & 0x807FFFFFu) | (120 + bits % 5) << 23);
  }
  const std::uint64_t width = dtype_bits(dtype) / 8;
  return Value::tensor(
      Tensor{.dtype = dtype, .shape = {bytes / width}, .data = TensorData::owned(std::move(data))});
}

// Tensors of several chunks and of a few bytes, ties, and what has no bytes.
Value example() {
  Value many = Value::list();
  for (std::uint64_t i = 0; i < 40; ++i) many.add(tensor(4 * (i * i + 1), i));
  const Value tied = tensor(100'000, 77);
  return Value::dict({{"large", tensor(3 * kMiB + 4000, 1)},
                      {"many", std::move(many)},
                      {"tied", Value::list({tied, tied})},
                      {"placeholder", Value::tensor(Tensor{.shape = {5}})},
                      {"empty", tensor(0, 2)},
                      {"last", tensor(kMiB, 3)},
                      {"step", Value::integer(7)}});
}

// A file system that shares and copies ranges; with an error, it does so every other time. Counts
// bytes.
class CountingOps : public FileOps {
 public:
  explicit CountingOps(int error = 0) : error_(error) {}
  ssize_t pwrite(int fd, const void* bytes, std::size_t size, off_t offset) override {
    written += size;
    return FileOps::pwrite(fd, bytes, size, offset);
  }
  int fallocate(int fd, off_t length) override {
    shared_before_reserving = shared;
    return FileOps::fallocate(fd, length);
  }
  int clone_range(int from, off_t from_offset, std::size_t size, int to, off_t to_offset) override {
    if (spoils(clones)) return -1;
    FileOps& system = FileOps::system();
    if (testing::clone_range(system, from, from_offset, size, to, to_offset) != 0) return -1;
    shared += size;
    return 0;
  }
  ssize_t copy_range(int from, off_t from_offset, std::size_t size, int to,
                     off_t to_offset) override {
    if (spoils(copies)) return -1;
    FileOps& system = FileOps::system();
    const ssize_t n = testing::copy_range(system, from, from_offset, size, to, to_offset);
    if (n > 0) copied += static_cast<std::size_t>(n);
    return n;
  }
  std::size_t shared = 0;
  std::size_t shared_before_reserving = 0;
  std::atomic<std::size_t> copied = 0;
  std::atomic<std::size_t> written = 0;
  std::atomic<int> clones = 0;
  std::atomic<int> copies = 0;

 private:
  bool spoils(std::atomic<int>& calls) const {
    errno = error_;
    return ++calls % 2 == 1 && error_ != 0;
  }
  int error_;
};

// Most file systems.
class NoReflinks : public CountingOps {
 public:
  int clone_range(int, off_t, std::size_t, int, off_t) override {
    errno = ENOTSUP;
    return -1;
  }
};

// A file whose bytes do not come from a descriptor; it counts what is read.
class Store : public Source {
 public:
  explicit Store(Bytes bytes) : bytes_(std::move(bytes)) {}
  std::uint64_t size() const override { return bytes_.size(); }
  Result<ByteSpan> read(const Extent& extent, MutableByteSpan scratch) const override {
    if (is_down) return fail(ErrorCode::kIoError, "the store is down", extent.offset);
    bytes_read += extent.length;
    const auto begin = bytes_.begin() + static_cast<std::ptrdiff_t>(extent.offset);
    std::copy_n(begin, extent.length, scratch.begin());
    return ByteSpan(scratch.first(static_cast<std::size_t>(extent.length)));
  }
  mutable std::atomic<std::uint64_t> bytes_read = 0;
  std::atomic<bool> is_down = false;

 private:
  Bytes bytes_;
};

Contents contents_of(const std::filesystem::path& path, const OpenFileOptions& options = {}) {
  auto contents = load_contents(path, options);
  REQUIRE(contents);
  return std::move(*contents);
}

TEST_CASE("An edited file is the one that a full save writes") {
  const TemporaryFolder folder;
  for (const int level : {0, kFastCompression}) {
    CAPTURE(level);
    REQUIRE(save(folder / "old.espalier", example(), {.compression_level = level}));
    for (const Access access : {Access::kMapped, Access::kRead}) {
      Contents contents = contents_of(folder / "old.espalier", {.access = access});
      REQUIRE(contents.state.set("many/3", tensor(5000, 1000)));
      REQUIRE(contents.state.set("tied/0", tensor(200'000, 1001)));  // tied no longer
      REQUIRE(contents.state.set("added", tensor(kMiB + 4, 1002)));
      REQUIRE(contents.state.erase("many/10"));
      REQUIRE(save(folder / "full.espalier", contents, {.carry = false}));
      CountingOps ops;
      REQUIRE(save(folder / "edited.espalier", contents, {.threads = 3, .ops = &ops}));
      const Bytes edited = read_whole(folder / "edited.espalier");
      CHECK(edited == read_whole(folder / "full.espalier"));
      CHECK(ops.written + ops.shared <= edited.size());
      const auto file = CheckpointFile::open(edited);
      REQUIRE(file);
      CHECK(file->verify()->error_count == 0);
    }
  }
}

TEST_CASE("Random trees, edited at random, are saved as in full") {
  const TemporaryFolder folder;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    CAPTURE(seed);
    testing::Random random(seed);
    const int level = static_cast<int>(random.bits() % 2);
    testing::RandomTree tree(seed, seed % 4 == 0);
    REQUIRE(save(folder / "old.espalier", Value::dict({{"a", tree.state()}, {"b", tree.state()}}),
                 {.metadata = tree.metadata(), .compression_level = level}));
    Contents contents = contents_of(folder / "old.espalier");
    if (seed % 3 == 0) contents.state = testing::shuffled(contents.state, random);
    if (seed % 3 == 1) REQUIRE(contents.state.erase("a"));
    if (seed % 3 == 2) REQUIRE(contents.state.set("c", testing::RandomTree(seed + 1000).state()));
    REQUIRE(save(folder / "full.espalier", contents, {.carry = false}));
    REQUIRE(save(folder / "edited.espalier", contents));
    CHECK(read_whole(folder / "edited.espalier") == read_whole(folder / "full.espalier"));
    REQUIRE(save(folder / "edited.espalier", contents.state, {.compression_level = 1 - level}));
    REQUIRE(save(folder / "full.espalier", contents.state,
                 {.compression_level = 1 - level, .carry = false}));
    CHECK(read_whole(folder / "edited.espalier") == read_whole(folder / "full.espalier"));
  }
}

TEST_CASE("Replacing one tensor reads and writes that tensor") {
  const TemporaryFolder folder;
  Value state = Value::dict();
  for (int i = 0; i < 16; ++i) state.add(std::to_string(i), tensor(4 * kMiB, 1));
  REQUIRE(save(folder / "old.espalier", state));
  Contents contents = contents_of(folder / "old.espalier");
  REQUIRE(contents.state.set("5", tensor(4 * kMiB, 2)));
  REQUIRE(save(folder / "full.espalier", contents, {.carry = false}));
  const Bytes full = read_whole(folder / "full.espalier");
  {
    CountingOps ops;
    REQUIRE(save(folder / "new.espalier", contents, {.ops = &ops}));
    CHECK(ops.clones == 2);  // for the tensors before and after
    CHECK(ops.shared > 15 * 4 * kMiB - 4 * 4096);
    CHECK(ops.shared_before_reserving == ops.shared);  // Shared blocks take no room.
    CHECK(ops.copied == 0);
    CHECK(ops.written < 4 * kMiB + 64 * 1024);
    CHECK(read_whole(folder / "new.espalier") == full);
  }
  NoReflinks ops;
  REQUIRE(save(folder / "new.espalier", contents, {.threads = 2, .ops = &ops}));
  CHECK(ops.copied == 15 * 4 * kMiB);
  CHECK(ops.written < 4 * kMiB + 64 * 1024);
  CHECK(read_whole(folder / "new.espalier") == full);
}

TEST_CASE("Where files cannot share storage or copy, the bytes are written") {
  const TemporaryFolder folder;
  REQUIRE(save(folder / "old.espalier", example()));
  const Bytes old = read_whole(folder / "old.espalier");
  for (const int error : {EXDEV, EINVAL, ENOSYS, EIO, EINTR}) {
    CountingOps ops(error);
    REQUIRE(save(folder / "new.espalier", contents_of(folder / "old.espalier"), {.ops = &ops}));
    CHECK(ops.clones > 0);
    CHECK((ops.copies > 0 || error == EINTR));
    CHECK(read_whole(folder / "new.espalier") == old);
  }
  const auto store = std::make_shared<Store>(old);
  auto file = CheckpointFile::open(store);
  REQUIRE(file);
  auto contents = file->contents();
  REQUIRE(contents);
  store->bytes_read = 0;
  REQUIRE(save(folder / "new.espalier", *contents));
  CHECK(read_whole(folder / "new.espalier") == old);
  CHECK(store->bytes_read < old.size());  // once, and no index
  store->is_down = true;
  const auto failed = save(folder / "new.espalier", *contents);
  REQUIRE(!failed);
  CHECK(failed.error().code == ErrorCode::kIoError);
  CHECK(failed.error().path != "");
  CHECK(read_whole(folder / "new.espalier") == old);
}

// That the bytes are not read shows in damage that stays where it is, and is still found.
TEST_CASE("Damage is taken over with the hash that tells of it") {
  const TemporaryFolder folder;
  for (const int level : {0, 1}) {
    REQUIRE(save(folder / "old.espalier", example(), {.compression_level = level}));
    Bytes bytes = read_whole(folder / "old.espalier");
    for (const char* path : {"large", "many/39"}) {
      const auto file = CheckpointFile::open(folder / "old.espalier");
      REQUIRE(file);
      const auto chunks = table_chunks(file->checkpoint().catalog().tables(),
                                       file->state().at(path)->tensor()->number());
      bytes[static_cast<std::size_t>(chunks[0].offset) + 40] ^= std::byte{1};
    }
    REQUIRE(testing::write_whole(folder / "damaged.espalier", bytes));
    const Contents contents = contents_of(folder / "damaged.espalier");
    const auto refused = save(folder / "new.espalier", contents, {.carry = false});
    REQUIRE(!refused);
    CHECK(refused.error().code == ErrorCode::kChunkCorrupt);
    REQUIRE(save(folder / "new.espalier", contents));
    const auto file = CheckpointFile::open(folder / "new.espalier");
    REQUIRE(file);
    const auto report = file->verify();
    REQUIRE(report);
    REQUIRE(report->errors.size() == 2);
    CHECK(report->errors[0].path == "large");
    CHECK(report->errors[1].path == "many/39");
  }
}

// Another program puts other tensors of the same shapes into the same file, with their hashes.
void overwrite(const std::filesystem::path& path, const std::filesystem::path& with) {
  REQUIRE(testing::write_whole(path, read_whole(with)));
  // File systems keep time in ticks, and this test is fast.
  const auto written = std::filesystem::last_write_time(path);
  std::filesystem::last_write_time(path, written + std::chrono::seconds(1));
}

TEST_CASE("Hashes of a file that was written to since are not taken over") {
  const TemporaryFolder folder;
  const auto old = folder / "old.espalier";
  for (const int level : {0, 1}) {
    REQUIRE(save(folder / "other.espalier", Value::dict({{"w", tensor(kMiB, 2)}}),
                 {.compression_level = level}));
    REQUIRE(save(old, Value::dict({{"w", tensor(kMiB, 1)}}), {.compression_level = level}));
    const auto file = CheckpointFile::open(old);
    REQUIRE(file);
    const auto lazy = file->contents();
    REQUIRE(lazy);
    const auto mapped = file->load(file->state());
    REQUIRE(mapped);
    overwrite(old, folder / "other.espalier");
    const auto refused = save(old, *lazy);
    REQUIRE(!refused);
    CHECK(refused.error().path == "w");
    CHECK(read_whole(old) == read_whole(folder / "other.espalier"));
    // What the program sees in memory is what it saves.
    REQUIRE(save(old, *mapped, {.compression_level = level}));
    const auto saved = CheckpointFile::open(old);
    REQUIRE(saved);
    CHECK(saved->verify()->error_count == 0);
    const auto loaded = saved->load(saved->state());
    REQUIRE(loaded);
    CHECK(testing::first_difference(*loaded, *mapped) == "");
  }
}

TEST_CASE("A file that is written to while tensors are taken over from it is an error") {
  class Overwriting : public CountingOps {
   public:
    explicit Overwriting(const TemporaryFolder& folder) : folder_(folder) {}
    int fallocate(int fd, off_t length) override {
      overwrite(folder_ / "old.espalier", folder_ / "other.espalier");
      return CountingOps::fallocate(fd, length);
    }

   private:
    const TemporaryFolder& folder_;
  };
  const TemporaryFolder folder;
  REQUIRE(save(folder / "other.espalier", Value::dict({{"w", tensor(kMiB, 2)}})));
  REQUIRE(save(folder / "old.espalier", Value::dict({{"w", tensor(kMiB, 1)}})));
  const Contents contents = contents_of(folder / "old.espalier");
  Overwriting ops(folder);
  const auto failed = save(folder / "new.espalier", contents, {.ops = &ops});
  REQUIRE(!failed);
  CHECK(failed.error().code == ErrorCode::kFileChanged);
  CHECK(failed.error().path == "w");
  CHECK(!std::filesystem::exists(folder / "new.espalier"));
}

TEST_CASE("A file that was cut since is an error, and the target stays") {
  const TemporaryFolder folder;
  for (const int level : {0, 1}) {
    REQUIRE(save(folder / "old.espalier", example(), {.compression_level = level}));
    const Contents contents = contents_of(folder / "old.espalier", {.access = Access::kRead});
    REQUIRE(save(folder / "new.espalier", Value::integer(1)));
    const Bytes before = read_whole(folder / "new.espalier");
    std::filesystem::resize_file(folder / "old.espalier", 5000);
    const auto failed = save(folder / "new.espalier", contents);
    REQUIRE(!failed);
    CHECK(failed.error().code == ErrorCode::kFileChanged);
    CHECK(failed.error().path != "");
    CHECK(read_whole(folder / "new.espalier") == before);
  }
}

TEST_CASE("Chunks are not taken over for another dtype") {
  const TemporaryFolder folder;
  REQUIRE(save(folder / "old.espalier", Value::dict({{"w", tensor(2 * kMiB, 1)}}),
               {.compression_level = 1}));
  Contents contents = contents_of(folder / "old.espalier");
  auto other = std::make_shared<Tensor>(*(*contents.state.at("w"))->as_tensor());
  other->dtype = DType::kI16;
  other->shape = {kMiB};
  REQUIRE(contents.state.set("w", Value::tensor(std::move(other))));
  REQUIRE(save(folder / "new.espalier", contents));
  const auto file = CheckpointFile::open(folder / "new.espalier");
  REQUIRE(file);
  CHECK(file->verify()->error_count == 0);
  CHECK(testing::first_difference(*file->load(file->state()), contents.state) == "");
}

TEST_CASE("A file keeps its compression unless the save says otherwise") {
  const TemporaryFolder folder;
  const Value state = Value::dict({{"w", tensor(2 * kMiB, 1)}});
  REQUIRE(save(folder / "9.espalier", state, {.compression_level = kMaxCompression}));
  REQUIRE(save(folder / "1.espalier", state, {.compression_level = kFastCompression}));
  REQUIRE(save(folder / "0.espalier", state));
  Contents contents = contents_of(folder / "9.espalier");
  REQUIRE(save(folder / "new.espalier", contents));
  CHECK(read_whole(folder / "new.espalier") == read_whole(folder / "9.espalier"));
  REQUIRE(save(folder / "new.espalier", contents.state, {.compression_level = 1}));
  CHECK(read_whole(folder / "new.espalier") == read_whole(folder / "1.espalier"));
  contents.compression_level = 0;
  REQUIRE(save(folder / "new.espalier", contents));
  CHECK(read_whole(folder / "new.espalier") == read_whole(folder / "0.espalier"));
  contents = contents_of(folder / "0.espalier");
  contents.compression_level = 1;
  REQUIRE(save(folder / "new.espalier", contents));
  CHECK(read_whole(folder / "new.espalier") == read_whole(folder / "1.espalier"));
}

// Bytes in memory were checked when they were loaded; those of the file may be others by now.
TEST_CASE("What was loaded into memory is saved from memory") {
  const TemporaryFolder folder;
  REQUIRE(save(folder / "old.espalier", example()));
  const auto file = CheckpointFile::open(folder / "old.espalier", {.access = Access::kRead});
  REQUIRE(file);
  const auto loaded = file->load(file->state());
  REQUIRE(loaded);
  const Bytes old = read_whole(folder / "old.espalier");
  REQUIRE(testing::write_whole(folder / "old.espalier", Bytes(old.size())));
  REQUIRE(save(folder / "new.espalier", *loaded));
  CHECK(read_whole(folder / "new.espalier") == old);
}

}  // namespace
}  // namespace espalier
