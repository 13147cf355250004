// Python objects as the tree that a save takes.
#ifndef ESPALIER_PYTHON_ENCODE_H_
#define ESPALIER_PYTHON_ENCODE_H_

#include <memory>
#include <optional>
#include <vector>

#include <nanobind/nanobind.h>

#include "espalier/value.h"

namespace espalier::python {

/// The first exception of the program's code that ran while tensors were read, in any thread. All
/// with the GIL.
class Raised {
 public:
  void keep(nanobind::python_error error) {
    if (!first_) first_.emplace(std::move(error));
  }
  /// Throws it, if there is one.
  void rethrow() const {
    if (first_) throw nanobind::python_error(*first_);
  }

 private:
  std::optional<nanobind::python_error> first_;
};

/// A state tree, and the Python objects whose memory its tensors borrow.
struct Encoded {
  Value value;
  std::vector<nanobind::object> kept;
  /// The attributes of dicts, which belong into the metadata, as pairs of a key path and a dict.
  nanobind::list attributes;
  /// Of Use::kOneByOne: what the error of a tensor that could not be copied means.
  std::shared_ptr<const Raised> raised;

  /// The metadata to save: `metadata`, with the attributes.
  nanobind::object with_attributes(nanobind::handle metadata) const;
};

/// What becomes of two arrays that share some of their memory, but are not the same array.
enum class Views : std::uint8_t { kError, kCopy };

/// How long a save uses the arrays.
enum class Use : std::uint8_t {
  /// Until the call returns.
  kCall,
  /// Longer. Arrays that cannot change become producers, which keep them: a snapshot copies all
  /// others alone.
  kBackground,
  /// Until the call returns, and each tensor is read once, from its first byte to its last. Arrays
  /// that must be copied become producers, which copy when the first byte is read and let the copy
  /// go with the last: so there is one for each thread that reads, not one for each array.
  kOneByOne,
};

/// Turns `object` and all below it into values, without recursion. What Python itself and numpy
/// have is known here; `encode_other(object)` of espalier/_encode.py turns any other object into
/// these. Raises espalier.Unsupported, with the key path, for what no checkpoint can hold.
Encoded encode(nanobind::handle object, Views views, Use use = Use::kCall);

}  // namespace espalier::python

#endif  // ESPALIER_PYTHON_ENCODE_H_
