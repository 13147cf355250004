// A fractal heap: where large groups keep their links, and objects many or large attributes.
#ifndef ESPALIER_FOREIGN_HDF5_FRACTAL_HEAP_H_
#define ESPALIER_FOREIGN_HDF5_FRACTAL_HEAP_H_

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/foreign/hdf5/reading.h"

namespace espalier {

/// The objects of one heap, by their IDs. For one reading.
class Hdf5FractalHeap {
 public:
  /// Reads the heap whose header is at `address`.
  Hdf5FractalHeap(Hdf5Reading& reading, std::uint64_t address);

  std::uint32_t id_bytes() const { return id_bytes_; }
  /// The object that `id`, of id_bytes() bytes, names; none if the reading lacks it or fails.
  ByteSpan get(ByteSpan id);

 private:
  struct Block {
    std::uint64_t size = 0;
    std::uint64_t head = 0;
    ByteSpan bytes;  // none if they are not there yet
  };
  struct Huge {
    std::uint64_t address = 0;
    std::uint64_t length = 0;
  };

  void read_header();
  void read_direct(std::uint64_t address, std::uint64_t size, std::uint64_t offset);
  void read_indirect(std::uint64_t address, std::uint32_t rows, std::uint64_t offset,
                     std::uint32_t depth);
  ByteSpan get_managed(Hdf5Cursor cursor);
  ByteSpan get_huge(Hdf5Cursor cursor);

  Hdf5Reading& reading_;
  std::uint64_t address_;
  std::uint32_t id_bytes_ = 0;
  bool has_sums_ = false;
  std::uint32_t offset_bytes_ = 0;
  std::uint32_t length_width_ = 0;
  std::uint32_t width_ = 0;
  std::uint64_t start_ = 0;
  std::uint64_t largest_ = 0;
  std::uint64_t huge_tree_ = kHdf5Undefined;
  bool is_huge_read_ = false;
  std::map<std::uint64_t, Block> blocks_;  // by their offsets in the heap
  std::map<std::uint64_t, Huge> huge_;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_HDF5_FRACTAL_HEAP_H_
