#include "crash_states.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "support/copy_ranges.h"
#include "support/random.h"
#include <fcntl.h>
#include <unistd.h>

namespace espalier::testing {
namespace {

constexpr int kFolder = -1;  // the number of a folder among the open files

}  // namespace

int RecordingOps::openat(int folder, const char* path, int flags, mode_t mode) {
  const std::lock_guard lock(mutex_);
  const bool is_nameless = (flags & O_TMPFILE) == O_TMPFILE;
  if (is_nameless && needs_names_) {
    errno = EOPNOTSUPP;
    return -1;
  }
  const int fd = FileOps::openat(folder, path, flags, mode);
  if (fd < 0) return fd;
  if (is_nameless) {
    files_[fd] = ++created_;
    nameless_.insert(created_);
  } else if ((flags & O_DIRECTORY) != 0) {
    files_[fd] = kFolder;
  } else if ((flags & O_CREAT) != 0) {
    files_[fd] = ++created_;
    log_.push_back({.kind = Step::Kind::kCreate, .file = created_, .name = path});
  }
  return fd;
}

int RecordingOps::ftruncate(int fd, off_t length) {
  const std::lock_guard lock(mutex_);
  const int result = FileOps::ftruncate(fd, length);
  if (result == 0) {
    log_.push_back({.kind = Step::Kind::kTruncate,
                    .file = files_.at(fd),
                    .offset = static_cast<std::uint64_t>(length)});
  }
  return result;
}

ssize_t RecordingOps::pwrite(int fd, const void* bytes, std::size_t size, off_t offset) {
  const std::lock_guard lock(mutex_);
  const ssize_t written = FileOps::pwrite(fd, bytes, size, offset);
  if (written > 0) {
    const auto* begin = static_cast<const std::byte*>(bytes);
    log_.push_back({.kind = Step::Kind::kWrite,
                    .file = files_.at(fd),
                    .offset = static_cast<std::uint64_t>(offset),
                    .bytes = Bytes(begin, begin + written)});
  }
  return written;
}

// For the disk, a write like any other, and so is a copy.
int RecordingOps::clone_range(int from, off_t from_offset, std::size_t size, int to,
                              off_t to_offset) {
  return testing::clone_range(*this, from, from_offset, size, to, to_offset);
}

ssize_t RecordingOps::copy_range(int from, off_t from_offset, std::size_t size, int to,
                                 off_t to_offset) {
  return testing::copy_range(*this, from, from_offset, size, to, to_offset);
}

int RecordingOps::fsync(int fd) {
  const std::lock_guard lock(mutex_);
  const int file = files_.at(fd);
  if (nameless_.count(file) != 0) return 0;
  log_.push_back(
      {.kind = file == kFolder ? Step::Kind::kSyncFolder : Step::Kind::kSync, .file = file});
  return 0;
}

int RecordingOps::close(int fd) {
  const std::lock_guard lock(mutex_);
  files_.erase(fd);
  return FileOps::close(fd);
}

int RecordingOps::named(int result, Step::Kind kind, const char* from, const char* to) {
  if (result == 0) log_.push_back({.kind = kind, .name = from, .to = to});
  return result;
}

int RecordingOps::renameat(int folder, const char* from, const char* to) {
  const std::lock_guard lock(mutex_);
  return named(FileOps::renameat(folder, from, to), Step::Kind::kRename, from, to);
}

int RecordingOps::renameat_exclusively(int folder, const char* from, const char* to) {
  const std::lock_guard lock(mutex_);
  if (cannot_rename_exclusively_) {
    errno = EINVAL;
    return -1;
  }
  return named(FileOps::renameat_exclusively(folder, from, to), Step::Kind::kRename, from, to);
}

int RecordingOps::linkat(int folder, const char* from, const char* to) {
  const std::lock_guard lock(mutex_);
  return named(FileOps::linkat(folder, from, to), Step::Kind::kLink, from, to);
}

int RecordingOps::link_open_file(int fd, int folder, const char* to) {
  const std::lock_guard lock(mutex_);
  const int result = FileOps::link_open_file(fd, folder, to);
  if (result == 0) {
    nameless_.erase(files_.at(fd));
    log_.push_back({.kind = Step::Kind::kCreate, .file = files_.at(fd), .name = to});
  }
  return result;
}

int RecordingOps::unlinkat(int folder, const char* path) {
  const std::lock_guard lock(mutex_);
  const int result = FileOps::unlinkat(folder, path);
  if (result == 0) log_.push_back({.kind = Step::Kind::kUnlink, .name = path});
  return result;
}

namespace {

// How much of a step has reached the disk.
enum class Part { kNothing, kFirstHalf, kSecondHalf, kAll };

// One choice: a part for each unsynced step, and the order in which those were written.
struct Choice {
  std::vector<Part> parts;
  bool is_reversed = false;
};

std::vector<Choice> choices(std::size_t count, bool may_tear, Random& random) {
  constexpr int kRandomChoices = 24;
  constexpr std::size_t kAllSubsets = 4;  // so few steps are chosen from in every way
  std::vector<Choice> made;
  const auto add = [&](Part rest, std::size_t at, Part part) {
    Choice choice{std::vector<Part>(count, rest)};
    choice.parts[at] = part;
    made.push_back(std::move(choice));
  };
  made.push_back({std::vector<Part>(count, Part::kAll)});
  if (count == 0) return made;
  made.push_back({std::vector<Part>(count, Part::kAll), true});
  made.push_back({std::vector<Part>(count, Part::kNothing)});
  for (std::size_t i = 0; i < count; ++i) {
    add(Part::kNothing, i, Part::kAll);
    add(Part::kAll, i, Part::kNothing);
    for (const Part half : {Part::kFirstHalf, Part::kSecondHalf}) {
      if (!may_tear) break;
      add(Part::kNothing, i, half);
      add(Part::kAll, i, half);
    }
  }
  if (count <= kAllSubsets) {
    for (std::size_t mask = 0; mask < std::size_t{1} << count; ++mask) {
      Choice choice;
      for (std::size_t i = 0; i < count; ++i) {
        choice.parts.push_back((mask >> i & 1) != 0 ? Part::kAll : Part::kNothing);
      }
      made.push_back(std::move(choice));
    }
  }
  for (int k = 0; k < kRandomChoices; ++k) {
    Choice choice{{}, random.bits() % 2 == 0};
    for (std::size_t i = 0; i < count; ++i) {
      constexpr Part kParts[] = {Part::kNothing, Part::kAll, Part::kFirstHalf, Part::kSecondHalf};
      choice.parts.push_back(kParts[random.bits() % (may_tear ? 4 : 2)]);
    }
    made.push_back(std::move(choice));
  }
  return made;
}

// Names are never torn: file systems keep a rename whole.
void apply_name(Disk& disk, const Step& step) {
  const auto from = disk.names.find(step.name);
  switch (step.kind) {
    case Step::Kind::kCreate:
      disk.names[step.name] = step.file;
      break;
    case Step::Kind::kRename:
    case Step::Kind::kLink:
      disk.names[step.to] = step.file;
      if (step.kind == Step::Kind::kRename && from != disk.names.end()) disk.names.erase(from);
      break;
    case Step::Kind::kUnlink:
      if (from != disk.names.end()) disk.names.erase(from);
      break;
    default:
      break;
  }
}

void apply_data(Bytes& file, const Step& step, Part part) {
  if (part == Part::kNothing) return;
  if (step.kind == Step::Kind::kTruncate) {
    // A length is one number: it has changed or it has not.
    if (part == Part::kAll) file.resize(step.offset);
    return;
  }
  const std::size_t half = step.bytes.size() / 2;
  const std::size_t begin = part == Part::kSecondHalf ? half : 0;
  const std::size_t end = part == Part::kFirstHalf ? half : step.bytes.size();
  if (file.size() < step.offset + end) file.resize(step.offset + end);
  std::memcpy(file.data() + step.offset + begin, step.bytes.data() + begin, end - begin);
}

// A rename or link applies to a file, whatever happened to its temporary name on the disk.
std::vector<Step> with_files_of_names(std::vector<Step> log, const Disk& before) {
  std::map<std::string, int> names = before.names;
  for (Step& step : log) {
    if (step.kind == Step::Kind::kCreate) names[step.name] = step.file;
    if (!step.to.empty()) names[step.to] = step.file = names.at(step.name);
  }
  return log;
}

}  // namespace

std::size_t visit_crash_states(
    const Disk& before, const std::vector<Step>& recorded, const std::string& target,
    const std::function<void(std::size_t steps, const Bytes* target)>& visit) {
  const std::vector<Step> log = with_files_of_names(recorded, before);
  Random random(1);
  std::size_t count = 0;
  Bytes file;
  for (std::size_t steps = 0; steps <= log.size(); ++steps) {
    Disk durable = before;
    std::vector<const Step*> names, data;  // not synced
    for (std::size_t i = 0; i < steps; ++i) {
      const Step& step = log[i];
      if (step.is_name()) names.push_back(&step);
      if (step.is_data()) data.push_back(&step);
      if (step.kind == Step::Kind::kSync) {
        std::erase_if(data, [&](const Step* unsynced) {
          if (unsynced->file != step.file) return false;
          apply_data(durable.files[step.file], *unsynced, Part::kAll);
          return true;
        });
      }
      if (step.kind == Step::Kind::kSyncFolder) {
        for (const Step* unsynced : names) apply_name(durable, *unsynced);
        names.clear();
      }
    }
    const auto of_names = choices(names.size(), false, random);
    const auto of_data = choices(data.size(), true, random);
    for (const Choice& chosen_names : of_names) {
      Disk disk = {durable.names, {}};
      for (std::size_t i = 0; i < names.size(); ++i) {
        const std::size_t k = chosen_names.is_reversed ? names.size() - 1 - i : i;
        if (chosen_names.parts[k] == Part::kAll) apply_name(disk, *names[k]);
      }
      const auto at = disk.names.find(target);
      for (const Choice& chosen_data : of_data) {
        ++count;
        if (at == disk.names.end()) {
          visit(steps, nullptr);
          continue;
        }
        // Only the target's file matters among all files on the disk.
        file = durable.files[at->second];
        for (std::size_t i = 0; i < data.size(); ++i) {
          const std::size_t k = chosen_data.is_reversed ? data.size() - 1 - i : i;
          if (data[k]->file == at->second) apply_data(file, *data[k], chosen_data.parts[k]);
        }
        visit(steps, &file);
      }
    }
  }
  return count;
}

}  // namespace espalier::testing
