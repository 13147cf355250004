#include "espalier/native/source.h"

#include <algorithm>
#include <cerrno>
#include <new>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "espalier/base/checked.h"
#include "espalier/native/out_of_memory.h"
#include "espalier/native/posix.h"

namespace espalier {
namespace {

Result<void> check_extent(const Extent& extent, std::uint64_t size) {
  if (extent.file != 0) {
    return fail(ErrorCode::kInvalidArgument,
                "a single file has no file number " + std::to_string(extent.file));
  }
  if (!range_fits(extent.offset, extent.length, size)) {
    return fail(ErrorCode::kTruncated, "the file ends before the bytes that are needed",
                extent.offset);
  }
  return {};
}

class ReadSource : public Source {
 public:
  ReadSource(FileDescriptor file, std::uint64_t size) : file_(std::move(file)), size_(size) {}

  std::uint64_t size() const override { return size_; }

  Result<ByteSpan> read(const Extent& extent, MutableByteSpan scratch) const override {
    if (auto ok = check_extent(extent, size_); !ok) return propagate(ok);
    if (scratch.size() < extent.length) {
      return fail(ErrorCode::kInvalidArgument, "the buffer is smaller than the extent");
    }
    const auto length = static_cast<std::size_t>(extent.length);
    std::size_t done = 0;
    while (done < length) {
      const auto offset = static_cast<off_t>(extent.offset + done);
      const ssize_t n = uninterrupted(
          [&] { return ::pread(file_.get(), scratch.data() + done, length - done, offset); });
      if (n < 0) return fail_with_errno(errno, "read the file", extent.offset + done);
      if (n == 0) {
        return fail(ErrorCode::kFileChanged,
                    "the file became shorter while it was read; read it again when its writer is "
                    "done",
                    extent.offset + done);
      }
      done += static_cast<std::size_t>(n);
    }
    return ByteSpan(scratch.first(length));
  }

  void prefetch(const Extent& extent) const override {
    ::posix_fadvise(file_.get(), static_cast<off_t>(extent.offset),
                    static_cast<off_t>(extent.length), POSIX_FADV_WILLNEED);
  }

 private:
  FileDescriptor file_;
  std::uint64_t size_;
};

class MappedSource : public Source {
 public:
  MappedSource() = default;
  MappedSource(const MappedSource&) = delete;
  MappedSource& operator=(const MappedSource&) = delete;
  ~MappedSource() override {
    if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  }

  /// Maps the file, of which `size` is not 0. Returns 0 or the errno. Call once: a source that is
  /// there before its mapping cannot lose it for want of memory.
  int map(const FileDescriptor& file, std::uint64_t size) {
    const auto length = narrow_size(size);
    if (!length) return EOVERFLOW;
    void* memory = ::mmap(nullptr, *length, PROT_READ, MAP_SHARED, file.get(), 0);
    if (memory == MAP_FAILED) return errno;
    bytes_ = {static_cast<const std::byte*>(memory), *length};
    return 0;
  }

  std::uint64_t size() const override { return bytes_.size(); }

  Result<ByteSpan> read(const Extent& extent, MutableByteSpan) const override {
    if (auto ok = check_extent(extent, bytes_.size()); !ok) return propagate(ok);
    return bytes_.subspan(static_cast<std::size_t>(extent.offset),
                          static_cast<std::size_t>(extent.length));
  }

  std::optional<ByteSpan> mapping() const override { return bytes_; }

  void prefetch(const Extent& extent) const override {
    // Mapping the pages in one call costs a fraction of the page faults that it saves.
    advise(extent, kPopulate);
  }

 private:
#ifdef MADV_POPULATE_READ
  static constexpr int kPopulate = MADV_POPULATE_READ;
#else
  static constexpr int kPopulate = MADV_WILLNEED;
#endif

  void advise(const Extent& extent, int advice) const {
    if (!check_extent(extent, bytes_.size()) || extent.length == 0) return;
    static const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
    const std::uint64_t begin = extent.offset / page * page;
    ::madvise(const_cast<std::byte*>(bytes_.data()) + begin,
              static_cast<std::size_t>(extent.offset + extent.length - begin), advice);
  }

  ByteSpan bytes_;
};

std::string kind_of(mode_t mode) {
  if (S_ISDIR(mode)) return "a directory";
  if (S_ISFIFO(mode)) return "a FIFO";
  if (S_ISSOCK(mode)) return "a socket";
  return "a device";
}

}  // namespace

Result<std::shared_ptr<const Source>> open_source(const std::filesystem::path& path,
                                                  Access access) try {
  // Without O_NONBLOCK, opening a FIFO waits for a writer, which may never come.
  FileDescriptor file(
      uninterrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); }));
  if (!file.is_open()) {
    if (errno == ENXIO) {
      return fail(ErrorCode::kNotARegularFile, "a socket or device cannot be read as a checkpoint");
    }
    return fail_with_errno(errno, "open the file");
  }
  struct stat status = {};
  if (::fstat(file.get(), &status) != 0) return fail_with_errno(errno, "examine the file");
  if (!S_ISREG(status.st_mode)) {
    return fail(ErrorCode::kNotARegularFile,
                "this is " + kind_of(status.st_mode) + "; a checkpoint is one regular file");
  }
  const auto size = static_cast<std::uint64_t>(status.st_size);
  // An empty file cannot be mapped, and holds nothing that could be.
  if (access == Access::kMapped && size > 0) {
    auto source = std::make_shared<MappedSource>();
    if (const int error = source->map(file, size); error != 0) {
      return fail_with_errno(error, "map the file");
    }
    return source;
  }
  return std::make_shared<const ReadSource>(std::move(file), size);
} catch (const std::bad_alloc&) {
  return out_of_memory();
}

}  // namespace espalier
