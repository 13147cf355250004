// The possible states of a disk after a crash.
//
// A save's system calls are recorded. A crash may come after any of them, and then the disk holds
// what was synced, and of all that was not, any part: this makes those states, one after the other.
#ifndef ESPALIER_TESTS_FAULTS_CRASH_STATES_H_
#define ESPALIER_TESTS_FAULTS_CRASH_STATES_H_

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "saves.h"

#include "files/os/file_ops.h"

namespace espalier::testing {

/// Something that a call changed, or brought to the disk.
struct Step {
  enum class Kind { kCreate, kTruncate, kWrite, kSync, kRename, kLink, kUnlink, kSyncFolder };

  Kind kind;
  int file = 0;  // numbered from 1 in the order in which they were created; not of names
  std::uint64_t offset = 0;  // of a write; of kTruncate, the new length
  Bytes bytes = {};
  std::string name = {};
  std::string to = {};

  bool is_data() const { return kind == Kind::kTruncate || kind == Kind::kWrite; }
  bool is_name() const { return !is_data() && kind != Kind::kSync && kind != Kind::kSyncFolder; }
};

/// Makes the system's calls and records those that worked and change something. Syncing is only
/// recorded, and not that of a file without a name: there are systems that do nothing then.
class RecordingOps : public FileOps {
 public:
  explicit RecordingOps(bool cannot_rename_exclusively = false, bool needs_names = false)
      : cannot_rename_exclusively_(cannot_rename_exclusively), needs_names_(needs_names) {}

  const std::vector<Step>& log() const { return log_; }

  int openat(int folder, const char* path, int flags, mode_t mode) override;
  int ftruncate(int fd, off_t length) override;
  ssize_t pwrite(int fd, const void* bytes, std::size_t size, off_t offset) override;
  int clone_range(int from, off_t from_offset, std::size_t size, int to, off_t to_offset) override;
  ssize_t copy_range(int from, off_t from_offset, std::size_t size, int to,
                     off_t to_offset) override;
  int fsync(int fd) override;
  int close(int fd) override;
  int renameat(int folder, const char* from, const char* to) override;
  int renameat_exclusively(int folder, const char* from, const char* to) override;
  int linkat(int folder, const char* from, const char* to) override;
  int link_open_file(int fd, int folder, const char* to) override;
  int unlinkat(int folder, const char* path) override;

 private:
  int named(int result, Step::Kind kind, const char* from, const char* to);

  bool cannot_rename_exclusively_;
  bool needs_names_;  // the file system has no files without a name
  std::mutex mutex_;
  std::vector<Step> log_;
  std::map<int, int> files_;  // number of each open file
  std::set<int> nameless_;    // numbers of files
  int created_ = 0;
};

/// A folder and its files. File 0 is the one that stood there before.
struct Disk {
  std::map<std::string, int> names;
  std::map<int, Bytes> files;
};

/// Calls `visit` with what `target` is in each state that a crash may leave: after each number of
/// steps, and for each of many choices of what of the unsynced steps has reached the disk. Those of
/// names and those of data are chosen independently of each other, because a file system may write
/// them in any order. The argument is the file's bytes, or null if there is none. Returns how many
/// states there were.
std::size_t visit_crash_states(
    const Disk& before, const std::vector<Step>& log, const std::string& target,
    const std::function<void(std::size_t steps, const Bytes* target)>& visit);

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_FAULTS_CRASH_STATES_H_
