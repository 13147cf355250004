#include "files/open/made_memory.h"

#include <iterator>
#include <string>

#include "espalier/base/counted.h"

namespace espalier {
namespace {

constexpr std::uint64_t kMostKept = std::uint64_t{64} << 20;

}  // namespace

Result<void> MadeMemory::reserve(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  if (bytes > whole_left_) {
    return fail(ErrorCode::kLimitExceeded,
                "this part of the checkpoint takes " + counted(bytes, "byte") +
                    " once it is unpacked, and Limits::made_bytes leaves " +
                    std::to_string(whole_left_));
  }
  whole_left_ -= bytes;
  return {};
}

void MadeMemory::give_back(std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  whole_left_ += bytes;
}

void MadeMemory::use(User& user, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  remove(user);
  users_.push_front({&user, bytes});
  places_[&user] = users_.begin();
  kept_ += bytes;
  for (auto other = std::prev(users_.end()); kept_ > kMostKept && other != users_.begin();) {
    const auto before = std::prev(other);
    if (other->user->forget()) remove(*other->user);
    other = before;
  }
}

void MadeMemory::leave(const User& user) {
  const std::lock_guard lock(mutex_);
  remove(user);
}

void MadeMemory::remove(const User& user) {
  const auto place = places_.find(&user);
  if (place == places_.end()) return;
  kept_ -= place->second->bytes;
  users_.erase(place->second);
  places_.erase(place);
}

}  // namespace espalier
