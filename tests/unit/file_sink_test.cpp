// A target is replaced completely or stays as it was, and nothing is left behind.
#include "espalier/file_sink.h"

#include <cerrno>
#include <climits>
#include <csignal>
#include <filesystem>
#include <functional>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "support/in_child.h"
#include "support/needs_names.h"
#include "support/temporary_folder.h"
#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files/os/file_ops.h"

namespace espalier {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryFolder;
using Bytes = std::vector<std::byte>;

const Bytes kOld(100, std::byte{'o'});
const Bytes kNew(5000, std::byte{'n'});

// A new file of `length` bytes.
Result<FileSink> create(const fs::path& target, std::uint64_t length, SinkOptions options = {}) {
  auto sink = FileSink::create(target, options);
  if (!sink) return sink;
  if (auto ok = sink->reserve(length); !ok) return propagate(ok);
  return sink;
}

Result<void> replace(const fs::path& target, ByteSpan bytes, SinkOptions options = {}) {
  auto sink = create(target, bytes.size(), options);
  if (!sink) return propagate(sink);
  if (auto ok = sink->write(0, bytes); !ok) return ok;
  return sink->commit();
}

unsigned permissions(const fs::path& path) {
  struct stat status = {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_mode & 07777;
}

std::string code_of(const Result<void>& result) {
  return result ? "ok" : std::string(to_string(result.error().code));
}

class FullDisk : public FileOps {
 public:
  int fallocate(int /*fd*/, off_t /*length*/) override {
    errno = ENOSPC;
    return -1;
  }
};

TEST_CASE("A full disk is noticed at once, and the error says what was wanted") {
  const TemporaryFolder folder;
  FullDisk ops;
  const auto refused = create(folder / "file", 5000, {.ops = &ops});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == ErrorCode::kIoError);
  CHECK(refused.error().message.starts_with("cannot reserve 5000 bytes for the file: "));
}

TEST_CASE("A new file appears with its bytes, its length and the usual permissions") {
  const TemporaryFolder folder;
  const mode_t mask = ::umask(027);
  auto sink = create(folder / "file", 300);
  ::umask(mask);
  REQUIRE(sink);
  CHECK(sink->write(200, Bytes(50, std::byte{7})));
  CHECK_FALSE(fs::exists(folder / "file"));
  CHECK(sink->commit());
  Bytes expected(300);
  std::fill_n(expected.begin() + 200, 50, std::byte{7});
  CHECK(testing::read_whole(folder / "file") == expected);
  CHECK(permissions(folder / "file") == 0640);
  CHECK(folder.size() == 1);
}

TEST_CASE("A sink that is not committed leaves everything as it was") {
  const TemporaryFolder folder;
  REQUIRE(testing::write_whole(folder / "file", kOld));
  testing::NeedsNames ops;
  {
    auto sink = create(folder / "file", kNew.size(), {.ops = &ops});
    REQUIRE(sink);
    CHECK(sink->write(0, kNew));
    CHECK(folder.size() == 2);
    FileSink moved = std::move(*sink);
    CHECK(folder.size() == 2);
  }
  CHECK(testing::read_whole(folder / "file") == kOld);
  CHECK(folder.size() == 1);
}

TEST_CASE("A file that appears meanwhile is kept unless it may be replaced") {
  const TemporaryFolder folder;
  auto sink = create(folder / "file", kNew.size(), {.replace = false});
  REQUIRE(sink);
  CHECK(sink->write(0, kNew));
  REQUIRE(testing::write_whole(folder / "file", kOld));
  CHECK(code_of(sink->commit()) == "file_exists");
  CHECK(testing::read_whole(folder / "file") == kOld);
  fs::remove(folder / "file");
  auto second = create(folder / "file", kNew.size(), {.replace = false});
  REQUIRE(second);
  CHECK(second->write(0, kNew));
  CHECK(second->commit());
  CHECK(testing::read_whole(folder / "file") == kNew);
}

TEST_CASE("A replaced file keeps its permissions") {
  const TemporaryFolder folder;
  REQUIRE(testing::write_whole(folder / "file", kOld));
  for (const mode_t mode : {mode_t{0600}, mode_t{0664}, mode_t{0444}}) {
    REQUIRE(::chmod((folder / "file").c_str(), mode) == 0);
    CHECK(code_of(replace(folder / "file", kNew)) == "ok");
    CHECK(permissions(folder / "file") == mode);
  }
  CHECK(testing::read_whole(folder / "file") == kNew);
  CHECK(folder.size() == 1);
}

// Remembers the arguments that a file was created with.
class RememberedMode : public FileOps {
 public:
  int openat(int folder, const char* path, int flags, mode_t mode) override {
    if ((flags & (O_CREAT | O_WRONLY)) != 0) created = mode;
    return FileOps::openat(folder, path, flags, mode);
  }
  mode_t created = 07777;
};

TEST_CASE("A private file is never open to others while it is replaced") {
  const TemporaryFolder folder;
  REQUIRE(testing::write_whole(folder / "file", kOld));
  for (const mode_t mode : {mode_t{0600}, mode_t{0400}, mode_t{0644}}) {
    REQUIRE(::chmod((folder / "file").c_str(), mode) == 0);
    RememberedMode ops;
    auto sink = create(folder / "file", 10, {.sync = false, .ops = &ops});
    REQUIRE(sink);
    CHECK(ops.created == (mode & 0600));
    REQUIRE(sink->commit());
    CHECK(permissions(folder / "file") == mode);
  }
}

// Does something to the world when the file is brought to the disk.
class MeanwhileOps : public testing::NeedsNames {
 public:
  explicit MeanwhileOps(std::function<void()> meanwhile) : meanwhile_(std::move(meanwhile)) {}
  int fsync(int) override {
    ++syncs;
    if (auto meanwhile = std::exchange(meanwhile_, nullptr)) meanwhile();
    return 0;
  }
  int syncs = 0;

 private:
  std::function<void()> meanwhile_;
};

TEST_CASE("A chmod during the save counts") {
  const TemporaryFolder folder;
  const fs::path file = folder / "file";
  REQUIRE(testing::write_whole(file, kOld));
  REQUIRE(::chmod(file.c_str(), 0644) == 0);
  auto sink = create(file, 10, {.sync = false});
  REQUIRE(sink);
  REQUIRE(::chmod(file.c_str(), 0600) == 0);
  REQUIRE(sink->commit());
  CHECK(permissions(file) == 0600);
  // Even in its last moments.
  MeanwhileOps ops([&] { REQUIRE(::chmod(file.c_str(), 0400) == 0); });
  auto second = create(file, 10, {.ops = &ops});
  REQUIRE(second);
  REQUIRE(second->commit());
  CHECK(permissions(file) == 0400);
  CHECK(ops.syncs == 3);  // the file, the file with its new mode, the folder
}

TEST_CASE("A file that was private stays so if it is removed during the save") {
  const TemporaryFolder folder;
  REQUIRE(testing::write_whole(folder / "file", kOld));
  REQUIRE(::chmod((folder / "file").c_str(), 0640) == 0);
  MeanwhileOps ops([&] { fs::remove(folder / "file"); });
  auto sink = create(folder / "file", 10, {.ops = &ops});
  REQUIRE(sink);
  fs::remove(folder / "file");
  REQUIRE(sink->commit());
  CHECK(permissions(folder / "file") == 0600);
}

TEST_CASE("A link is not followed where nothing may be replaced") {
  const TemporaryFolder folder;
  fs::create_symlink("elsewhere", folder / "link");
  CHECK(code_of(replace(folder / "link", kNew, {.replace = false})) == "file_exists");
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(folder.size() == 1);
}

// The system does not follow links, as under fs.protected_symlinks.
class NoLinks : public FileOps {
 public:
  int fstatat(int folder, const char* path, struct stat* status, int flags) override {
    if (flags != 0) return FileOps::fstatat(folder, path, status, flags);
    errno = EACCES;
    return -1;
  }
};

TEST_CASE("A file that may not be replaced is found before anything is written") {
  const TemporaryFolder folder;
  REQUIRE(testing::write_whole(folder / "file", kOld));
  const auto sink = create(folder / "file", kNew.size(), {.replace = false});
  REQUIRE_FALSE(sink);
  CHECK(sink.error().code == ErrorCode::kFileExists);
  CHECK(folder.size() == 1);
}

TEST_CASE("A new file is its owner's alone until it is complete") {
  const TemporaryFolder folder;
  const mode_t mask = ::umask(022);
  testing::NeedsNames ops;
  auto sink = create(folder / "file", kNew.size(), {.sync = false, .ops = &ops});
  ::umask(mask);
  REQUIRE(sink);
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    CHECK(permissions(entry.path()) == 0600);
  }
  // A private file that appears meanwhile stays private.
  REQUIRE(testing::write_whole(folder / "file", kOld));
  REQUIRE(::chmod((folder / "file").c_str(), 0600) == 0);
  REQUIRE(sink->commit());
  CHECK(permissions(folder / "file") == 0600);
}

// Replaces the file behind a link whenever it is looked at through the link.
class BusyWriter : public FileOps {
 public:
  explicit BusyWriter(fs::path file) : file_(std::move(file)) {}
  int fstatat(int folder, const char* path, struct stat* status, int flags) override {
    if (flags == 0 && looks++ < 3) {
      REQUIRE(testing::write_whole(file_.native() + ".new", kOld));
      fs::rename(file_.native() + ".new", file_);
    }
    return FileOps::fstatat(folder, path, status, flags);
  }
  int looks = 0;

 private:
  fs::path file_;
};

TEST_CASE("Saves through a link do not mind other writers of the file") {
  const TemporaryFolder folder;
  REQUIRE(testing::write_whole(folder / "file", kOld));
  fs::create_symlink("file", folder / "link");
  BusyWriter ops(folder / "file");
  CHECK(code_of(replace(folder / "link", kNew, {.sync = false, .ops = &ops})) == "ok");
  CHECK(ops.looks == 4);
  CHECK(testing::read_whole(folder / "file") == kNew);
}

// Removes the old file just before it is opened.
class Remover : public FileOps {
 public:
  int openat(int folder, const char* path, int flags, mode_t mode) override {
    if ((flags & (O_CREAT | O_DIRECTORY)) == 0) FileOps::unlinkat(folder, path);
    return FileOps::openat(folder, path, flags, mode);
  }
};

TEST_CASE("A file that is removed while its rights are looked at is none") {
  const TemporaryFolder folder;
  REQUIRE(testing::write_whole(folder / "file", kOld));
  Remover ops;
  CHECK(code_of(replace(folder / "file", kNew, {.sync = false, .ops = &ops})) == "ok");
  CHECK(testing::read_whole(folder / "file") == kNew);
}

TEST_CASE("A link that the system does not follow is no file that is not there") {
  const TemporaryFolder folder;
  fs::create_symlink("elsewhere", folder / "link");
  NoLinks ops;
  CHECK(code_of(replace(folder / "link", kNew, {.ops = &ops})) == "io_error");
  CHECK(folder.size() == 1);
}

TEST_CASE("A save stays in its folder when the path changes") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "a");
  const int result = testing::in_child([&] {
    if (::chdir((folder / "a").c_str()) != 0) return 99;
    auto committed = create("file", kNew.size());
    auto given_up = create("other", kNew.size());
    auto exclusive = create("exclusive", kNew.size(), {.replace = false});
    if (!committed || !given_up || !exclusive) return 98;
    if (::chdir("/") != 0) return 97;
    fs::rename(folder / "a", folder / "b");
    if (!committed->write(0, kNew) || !committed->commit()) return 96;
    if (!exclusive->write(0, kNew) || !exclusive->commit()) return 95;
    return 1;
  });
  CHECK(result == 1);
  CHECK(testing::read_whole(folder / "b/file") == kNew);
  CHECK(testing::read_whole(folder / "b/exclusive") == kNew);
  const auto left = fs::directory_iterator(folder / "b");
  CHECK(std::distance(begin(left), end(left)) == 2);
}

TEST_CASE("A forked child leaves the parent's temporary file alone") {
  const TemporaryFolder folder;
  testing::NeedsNames ops;
  auto sink = create(folder / "file", kNew.size(), {.ops = &ops});
  REQUIRE(sink);
  CHECK(testing::in_child([&] {
          { const FileSink mine = std::move(*sink); }
          return 1;
        }) == 1);
  CHECK(folder.size() == 1);
  CHECK(sink->write(0, kNew));
  CHECK(sink->commit());
  CHECK(testing::read_whole(folder / "file") == kNew);
}

TEST_CASE("A path as long as the system allows can be saved to") {
  const TemporaryFolder folder;
  constexpr std::size_t kLongest = PATH_MAX - 1;  // without the NUL
  std::string path = (folder / "").native();
  while (path.size() + 200 < kLongest) path += std::string(100, 'd') + '/';
  path += std::string(kLongest - path.size() - 2, 'd');
  fs::create_directories(path);
  path += "/n";  // shorter than any temporary name
  CHECK(code_of(replace(path, kNew)) == "ok");
  CHECK(code_of(replace(path, kOld)) == "ok");
  CHECK(testing::read_whole(path) == kOld);
}

TEST_CASE("A name with a NUL in it is refused") {
  const TemporaryFolder folder;
  const std::string name("file\0.espalier", 14);
  CHECK(code_of(replace(folder / name, kNew)) == "invalid_argument");
  CHECK(folder.size() == 0);
}

TEST_CASE("A link to a file whose name is gone is no target") {
  const TemporaryFolder folder;
  REQUIRE(testing::write_whole(folder / "file", kOld));
  const int fd = ::open((folder / "file").c_str(), O_RDWR | O_CLOEXEC);
  REQUIRE(fd >= 0);
  const fs::path link = "/proc/self/fd/" + std::to_string(fd);
  CHECK(code_of(replace(link, kNew)) == "ok");
  CHECK(testing::read_whole(folder / "file") == kNew);
  // The descriptor is still that of the old file, which has no name any more.
  CHECK(code_of(replace(link, kNew)) == "not_a_regular_file");
  CHECK(folder.size() == 1);
  ::close(fd);
}

TEST_CASE("A replaced file does not pass on the right to run as its owner") {
  const TemporaryFolder folder;
  REQUIRE(testing::write_whole(folder / "file", kOld));
  REQUIRE(::chmod((folder / "file").c_str(), 06755) == 0);
  CHECK(code_of(replace(folder / "file", kNew)) == "ok");
  CHECK(permissions(folder / "file") == 0755);
}

TEST_CASE("A disk that is full leaves the old file intact") {
  const TemporaryFolder folder;
  REQUIRE(testing::write_whole(folder / "file", kOld));
  const auto limited = [&](std::uint64_t length, ByteSpan bytes) {
    return testing::in_child([&] {
      std::signal(SIGXFSZ, SIG_IGN);
      const rlimit limit = {2000, 2000};
      if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 99;
      auto sink = create(folder / "file", length);
      if (!sink) return sink.error().code == ErrorCode::kIoError ? 1 : 98;
      const auto written = sink->write(0, bytes);
      if (!written) return written.error().code == ErrorCode::kIoError ? 2 : 97;
      return sink->commit() ? 3 : 96;
    });
  };
  CHECK(limited(5000, kNew) == 1);
  CHECK(limited(1000, kNew) == 2);
  CHECK(testing::read_whole(folder / "file") == kOld);
  CHECK(folder.size() == 1);
  CHECK(limited(100, kOld) == 3);
}

TEST_CASE("A folder that cannot be written to is an error") {
  const TemporaryFolder folder;
  REQUIRE(testing::write_whole(folder / "file", kOld));
  REQUIRE(::chmod((folder / "file").c_str(), 0666) == 0);
  REQUIRE(::chmod(folder.path().c_str(), 0555) == 0);
  const int result = testing::in_child([&] {
    // Root may write anywhere.
    if (::geteuid() == 0 && (::setegid(65534) != 0 || ::seteuid(65534) != 0)) return 99;
    const auto replaced = replace(folder / "file", kNew);
    return replaced ? 98 : replaced.error().code == ErrorCode::kIoError ? 1 : 97;
  });
  CHECK(result == 1);
  REQUIRE(::chmod(folder.path().c_str(), 0755) == 0);
  CHECK(testing::read_whole(folder / "file") == kOld);
  CHECK(folder.size() == 1);
}

TEST_CASE("Targets that are no regular files are refused and stay") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "directory");
  REQUIRE(::mkfifo((folder / "fifo").c_str(), 0600) == 0);
  fs::create_symlink("directory", folder / "link to directory");
  for (const char* name : {"directory", "directory/", "fifo", "link to directory", ".", ""}) {
    CAPTURE(name);
    CHECK(code_of(replace(folder / name, kNew)) == "not_a_regular_file");
  }
  CHECK(code_of(replace("/dev/null", kNew)) == "not_a_regular_file");
  CHECK(code_of(replace(folder / "missing" / "file", kNew)) == "file_not_found");
  CHECK(folder.size() == 3);
  CHECK(fs::is_fifo(folder / "fifo"));
}

TEST_CASE("A symbolic link is followed, and stays") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "real");
  REQUIRE(testing::write_whole(folder / "real/file", kOld));
  fs::create_symlink("real/file", folder / "link");
  fs::create_symlink("link", folder / "link to link");
  CHECK(code_of(replace(folder / "link to link", kNew)) == "ok");
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(fs::is_symlink(folder / "link to link"));
  CHECK(testing::read_whole(folder / "real/file") == kNew);
  CHECK(folder.size() == 3);
}

TEST_CASE("A symbolic link to nothing yet gets its file where it points") {
  const TemporaryFolder folder;
  fs::create_directory(folder / "real");
  fs::create_symlink("real/file", folder / "link");
  fs::create_symlink("link", folder / "link to link");
  CHECK(code_of(replace(folder / "link to link", kNew)) == "ok");
  CHECK(fs::is_symlink(folder / "link"));
  CHECK(fs::is_symlink(folder / "link to link"));
  CHECK(testing::read_whole(folder / "real/file") == kNew);
}

TEST_CASE("A symbolic link that leads to itself is an error") {
  const TemporaryFolder folder;
  fs::create_symlink("a", folder / "b");
  fs::create_symlink("b", folder / "a");
  CHECK(code_of(replace(folder / "a", kNew)) == "io_error");
  CHECK(fs::is_symlink(folder / "a"));
  CHECK(folder.size() == 2);
}

TEST_CASE("Names as long as a file system allows can be saved to") {
  const TemporaryFolder folder;
  for (const std::size_t length : {200u, 250u, 255u}) {
    CAPTURE(length);
    const std::string name(length, 'n');
    CHECK(code_of(replace(folder / name, kNew)) == "ok");
    CHECK(code_of(replace(folder / name, kOld)) == "ok");
    CHECK(testing::read_whole(folder / name) == kOld);
  }
  CHECK(code_of(replace(folder / std::string(256, 'n'), kNew)) == "io_error");
  CHECK(folder.size() == 3);
}

TEST_CASE("A relative name without a folder is saved in the current one") {
  const TemporaryFolder folder;
  const int result = testing::in_child([&] {
    if (::chdir(folder.path().c_str()) != 0) return 99;
    return replace("file", kNew) ? 1 : 98;
  });
  CHECK(result == 1);
  CHECK(testing::read_whole(folder / "file") == kNew);
}

}  // namespace
}  // namespace espalier
