#include "espalier/format/text_pool.h"

#include <algorithm>
#include <functional>

#include "espalier/base/merge_sort.h"
#include "espalier/base/release.h"
#include "espalier/format/owned_tables.h"

namespace espalier {
namespace {

constexpr std::uint32_t kFree = ~std::uint32_t{0};

// Slots that a search visits at most. So a file whose texts all have the same hash cannot make
// searches quadratic: equal texts may get second numbers, and finish() merges them.
constexpr std::size_t kMaxProbes = 16;

}  // namespace

std::uint32_t TextPool::add(std::string_view text) {
  if (2 * used_slots_ >= slots_.size()) grow();
  std::uint32_t* slot = find_slot(text);
  if (slot == nullptr) return add_new(text);
  if (*slot == kFree) {
    *slot = add_new(text);
    ++used_slots_;
  }
  return *slot;
}

// The slot with the number of `text`, or a free slot for it; null if the search found neither.
std::uint32_t* TextPool::find_slot(std::string_view text) {
  const std::size_t mask = slots_.size() - 1;
  const std::size_t first = std::hash<std::string_view>()(text);
  for (std::size_t probe = 0; probe < kMaxProbes; ++probe) {
    std::uint32_t& slot = slots_[(first + probe) & mask];
    if (slot == kFree || texts_[slot].view() == text) return &slot;
  }
  return nullptr;
}

void TextPool::grow() {
  std::vector<std::uint32_t> old(std::max<std::size_t>(64, 2 * slots_.size()), kFree);
  std::swap(slots_, old);
  used_slots_ = 0;
  for (const std::uint32_t number : old) {
    if (number == kFree) continue;
    if (std::uint32_t* slot = find_slot(texts_[number].view())) {
      *slot = number;
      ++used_slots_;
    }
  }
}

void TextPool::finish(OwnedTables& tables) {
  release_memory(slots_);
  merge_sort_runs(texts_, [](const Text& a, const Text& b) { return a.view() < b.view(); });
  std::size_t bytes = 0;
  for (const Text& text : texts_) bytes += text.size;
  tables.text.reserve(bytes);
  tables.text_ends.reserve(texts_.size());
  final_.resize(texts_.size());
  const Text* before = nullptr;
  for (const Text& text : texts_) {
    if (before == nullptr || before->view() != text.view()) {
      tables.text.insert(tables.text.end(), text.data, text.data + text.size);
      tables.text_ends.push_back(static_cast<std::uint32_t>(tables.text.size()));
    }
    final_[text.number] = static_cast<std::uint32_t>(tables.text_ends.size() - 1);
    before = &text;
  }
  release_memory(texts_);
}

}  // namespace espalier
