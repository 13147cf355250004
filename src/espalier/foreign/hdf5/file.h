// All that an HDF5 file says of itself: its groups, and the types, shapes and attributes in them.
#ifndef ESPALIER_FOREIGN_HDF5_FILE_H_
#define ESPALIER_FOREIGN_HDF5_FILE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/base/function_ref.h"
#include "espalier/bytes.h"
#include "espalier/error.h"
#include "espalier/foreign/hdf5/dataset.h"
#include "espalier/foreign/hdf5/links.h"
#include "espalier/foreign/hdf5/object_header.h"
#include "espalier/foreign/hdf5/pieces.h"
#include "espalier/foreign/hdf5/reading.h"
#include "espalier/foreign/hdf5/values.h"
#include "espalier/format/file_maker.h"
#include "espalier/limits.h"

namespace espalier {

/// Where a file begins in another one with a block of the user's in front: at a power of two from
/// 512 on, or at 0. Nothing if `front` has no signature.
std::optional<std::uint64_t> find_hdf5_signature(ByteSpan front);

/// A group, an array, or a type that has a name.
struct Hdf5Object {
  enum class Kind : std::uint8_t { kUnknown, kGroup, kArray, kType };
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};

  std::uint64_t address = 0;
  /// The first group that leads to it, and its name there; bytes of the file.
  std::uint32_t parent = kNone;
  std::string_view name;
  std::uint32_t depth = 0;
  Kind kind = Kind::kUnknown;
  std::vector<Hdf5Link> links;
  /// By link: the object that a hard one leads to.
  std::vector<std::uint32_t> children;
  /// Numbers of links in the order of their names.
  std::vector<std::uint32_t> by_name;
  std::shared_ptr<Hdf5Dataset> dataset;
  /// Of an array of texts or of elements of variable length, which stand in the tree.
  std::optional<Hdf5Value> value;
  std::vector<Hdf5Attribute> attributes;
  /// Why it cannot be read. Its type and shape may be known.
  std::optional<Error> problem;

  const Hdf5Attribute* attribute(std::string_view wanted) const;
  /// The text of an attribute that is one.
  std::optional<std::string_view> text(std::string_view attribute_name) const;
};

/// Reads the structures of one HDF5 file, in rounds: each step wants what all objects need that are
/// known so far. Elements of arrays are not read, but those of variable length. Not thread-safe.
class Hdf5File {
 public:
  /// The file lies at `begin` of another one (0 if it is that), and has `length` bytes. `limits`
  /// must outlive it.
  Hdf5File(std::uint64_t begin, std::uint64_t length, const Limits& limits);

  /// Puts bytes at `offset` of the outer file that are at hand; the first ones before the first
  /// step().
  void add(std::uint64_t offset, ByteSpan bytes) { pieces_.add(offset, bytes); }

  /// Goes on; true once all is read, otherwise when what it wanted is there. kForeignInvalid,
  /// kTruncated or kUnsupportedFeature if the file itself cannot be read; kLimitExceeded. What is
  /// wrong with an object is its problem.
  [[nodiscard]] Result<bool> step(FunctionRef<void(std::uint64_t offset, MutableByteSpan to)> want);

  const Hdf5Layout& layout() const { return layout_; }
  /// The first one is the root.
  const std::vector<Hdf5Object>& objects() const { return objects_; }
  /// The names that lead to an object, each with a '/' before it; "/" for the root.
  std::string path(std::uint32_t object) const;
  /// The number of a link of `group`.
  std::optional<std::uint32_t> find_link(std::uint32_t group, std::string_view name) const;
  /// The object that a soft link of `group` leads to, by further links if need be.
  std::optional<std::uint32_t> follow(std::uint32_t group, const Hdf5Link& link) const;

 private:
  // What is left to be done for an object.
  struct Work {
    std::uint32_t object = 0;
    bool has_header = false;
    bool has_contents = false;
    bool has_attributes = false;
    std::vector<Hdf5Message> messages;
    // The elements of an array of variable length.
    std::vector<std::byte> elements = {};
    std::unique_ptr<MakingMachine> machine = nullptr;
  };

  [[nodiscard]] Result<void> read_superblock();
  std::uint32_t add_object(std::uint64_t address, std::uint32_t parent, std::string_view name,
                           std::uint32_t depth);
  [[nodiscard]] Result<bool> go_on(Work& work);
  void read_header(Work& work, Hdf5Reading& reading);
  void read_contents(Work& work, Hdf5Reading& reading);
  void read_value(Work& work, Hdf5Reading& reading);
  bool make_elements(Work& work, Hdf5Reading& reading);
  void add_children(std::uint32_t group);
  void find_overlaps();
  std::optional<std::uint32_t> follow(std::uint32_t group, std::string_view path,
                                      std::uint32_t depth, std::uint32_t& names) const;

  const Limits& limits_;
  std::uint64_t begin_;
  std::uint64_t length_;
  Hdf5Pieces pieces_;
  Hdf5Layout layout_;
  std::uint64_t work_left_;
  Hdf5GlobalHeap heap_;
  std::vector<Hdf5Object> objects_;
  std::map<std::uint64_t, std::uint32_t> by_address_;
  std::vector<Work> pending_;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_HDF5_FILE_H_
