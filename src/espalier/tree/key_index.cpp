#include "espalier/tree/key_index.h"

#include <algorithm>
#include <bit>

namespace espalier {
namespace {

std::size_t hash_of(KeyView key) {
  // Neighbouring integers are spread by the golden ratio, whose upper bits are the best ones.
  if (key.is_int) {
    const auto integer = static_cast<std::uint64_t>(key.integer);
    return static_cast<std::size_t>(integer * 0x9E3779B97F4A7C15u >> 32);
  }
  std::uint32_t hash = 2166136261;  // FNV-1a: little code, and names are short
  for (const char c : key.text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619;
  return hash;
}

}  // namespace

std::size_t KeyIndex::slot_of(std::span<const Key> keys, KeyView key) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = hash_of(key) & mask;
  while (slots_[slot] != kFree && keys[slots_[slot]].view() != key) slot = (slot + 1) & mask;
  return slot;
}

void KeyIndex::extend(std::span<const Key> keys) {
  if (slots_.size() < 2 * keys.size()) {
    slots_.assign(std::bit_ceil(std::max<std::size_t>(4 * keys.size(), 4 * kLeast)), kFree);
    size_ = 0;
  }
  for (; size_ < keys.size(); ++size_) {
    std::uint32_t& slot = slots_[slot_of(keys, keys[size_].view())];
    if (slot == kFree) slot = static_cast<std::uint32_t>(size_);
  }
}

std::optional<std::size_t> KeyIndex::find(std::span<const Key> keys, KeyView key) const {
  if (slots_.empty()) return std::nullopt;
  const std::uint32_t position = slots_[slot_of(keys, key)];
  return position == kFree ? std::nullopt : std::optional<std::size_t>(position);
}

}  // namespace espalier
