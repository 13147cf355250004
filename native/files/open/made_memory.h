// The memory that the made files of one checkpoint share.
#ifndef ESPALIER_FILES_OPEN_MADE_MEMORY_H_
#define ESPALIER_FILES_OPEN_MADE_MEMORY_H_

#include <cstdint>
#include <list>
#include <mutex>
#include <unordered_map>

#include "espalier/error.h"

namespace espalier {

/// Counts the memory of made files. Some are kept whole, within Limits::made_bytes. The others keep
/// parts, 64 MiB together: those of the files that were used last. Thread-safe.
class MadeMemory {
 public:
  /// A file that keeps a part. It must leave() before it ends.
  class User {
   public:
    User() = default;
    User(const User&) = delete;
    User& operator=(const User&) = delete;
    virtual ~User() = default;
    /// Gives up the part that is kept, which can be made again. False if it is in use. Called with
    /// a lock held, so it must not wait.
    virtual bool forget() = 0;
  };

  explicit MadeMemory(std::uint64_t whole_bytes) : whole_left_(whole_bytes) {}

  /// Reserves memory for a file that is kept whole; kLimitExceeded.
  [[nodiscard]] Result<void> reserve(std::uint64_t bytes);
  void give_back(std::uint64_t bytes);

  /// Tells that `user` was used last, and keeps this many bytes. Makes others forget theirs if all
  /// have too many.
  void use(User& user, std::uint64_t bytes);
  void leave(const User& user);

 private:
  struct Kept {
    User* user;
    std::uint64_t bytes;
  };

  void remove(const User& user);

  std::mutex mutex_;
  std::uint64_t whole_left_;
  std::uint64_t kept_ = 0;
  std::list<Kept> users_;  // that which was used last comes first
  std::unordered_map<const User*, std::list<Kept>::iterator> places_;
};

}  // namespace espalier

#endif  // ESPALIER_FILES_OPEN_MADE_MEMORY_H_
