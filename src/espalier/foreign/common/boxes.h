// A tensor that was cut into boxes: whether they make all of it, and how they are put together.
#ifndef ESPALIER_FOREIGN_COMMON_BOXES_H_
#define ESPALIER_FOREIGN_COMMON_BOXES_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/foreign/common/foreign_tensor.h"
#include "espalier/format/file_maker.h"
#include "espalier/format/table_builder.h"

namespace espalier {

/// A box in a tensor: a number for each axis.
struct Box {
  std::span<const std::uint64_t> offset;
  std::span<const std::uint64_t> size;
};

enum class Cover : std::uint8_t {
  kExact,
  kBeyond,   // a box reaches out of the tensor
  kOverlap,  // some element is in two boxes
  kHole,     // some element is in none
  kTangled,  // finding out would take too long: nobody cuts like that
};

/// How `boxes` cover a tensor of this shape, which has elements; every box must have some. Takes
/// time linear in a grid of boxes.
Cover check_cover(std::span<const std::uint64_t> shape, std::span<const Box> boxes);

/// How the bytes of a box, as they lie in its own file, come to their places in the tensor.
struct BoxCopy {
  struct Axis {
    std::uint64_t count = 0;
    std::uint64_t step = 0;  // bytes in the tensor
  };
  Extent from;
  /// Where the box's first byte goes.
  std::uint64_t to = 0;
  /// Bytes that lie one after the other in both.
  std::uint64_t run = 0;
  /// How runs follow each other in the box's file; the last one is the fastest.
  std::vector<Axis> axes = {};

  /// Whether all of the box is one run.
  bool is_whole() const { return axes.empty(); }
};

/// The copy of `box` of a packed tensor with elements of `width` bytes; its own elements begin at
/// `place`, whose length is not used, and have those strides, in elements, or are packed if there
/// are none. Nothing if the box's elements do not fill one piece of its file. Sizes must have been
/// checked: that the box lies in the tensor, and the tensor has fewer than 2^63 bytes.
std::optional<BoxCopy> plan_copy(std::span<const std::uint64_t> shape, const Box& box,
                                 std::uint64_t width, Extent place,
                                 std::span<const std::uint64_t> strides);

/// Whether each copy is a run of whole chunks, and they ascend in the files as they do in the
/// tensor: nothing needs to be copied then. Sorts them by their places in the tensor.
bool are_whole_chunks(std::vector<BoxCopy>& copies);

/// Adds a tensor whose bytes are those of `copies`, of which are_whole_chunks() was true; of
/// `tensor`, only dtype, shape and block count.
void add_tensor_of_chunks(TableBuilder& builder, const ForeignTensor& tensor,
                          std::span<const BoxCopy> copies);

/// Puts boxes together. They may belong to several tensors of one made file.
class BoxMaker final : public FileMaker {
 public:
  /// The copies fill the file, and their extents lie within files that are not made.
  explicit BoxMaker(std::vector<BoxCopy> copies);

  std::unique_ptr<MakingMachine> start(MutableByteSpan out) const override;

 private:
  std::shared_ptr<const std::vector<BoxCopy>> copies_;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_COMMON_BOXES_H_
