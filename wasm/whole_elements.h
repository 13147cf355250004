// Cuts pieces of packed elements where whole ones end.
#ifndef ESPALIER_WASM_WHOLE_ELEMENTS_H_
#define ESPALIER_WASM_WHOLE_ELEMENTS_H_

#include <cstddef>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/dtype.h"

namespace espalier::abi {

/// Elements of six bits continue across the ends of chunks: incomplete ones wait here.
class WholeElements {
 public:
  explicit WholeElements(DType dtype) : is_split_(dtype_bits(dtype) == 6) {}

  /// Calls `take` with whole elements.
  template <class Take>
  void add(ByteSpan packed, Take take) {
    if (!is_split_) return take(packed);
    waiting_.insert(waiting_.end(), packed.begin(), packed.end());
    const std::size_t whole = waiting_.size() / 3 * 3;
    take(ByteSpan(waiting_).first(whole));
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(whole));
  }

  /// The last piece may end in the middle of three bytes.
  template <class Take>
  void end(Take take) {
    if (!waiting_.empty()) take(ByteSpan(waiting_));
    waiting_.clear();
  }

 private:
  bool is_split_;
  std::vector<std::byte> waiting_;
};

}  // namespace espalier::abi

#endif  // ESPALIER_WASM_WHOLE_ELEMENTS_H_
