// The headers of objects: messages, each of which says one thing about a group or an array.
#ifndef ESPALIER_FOREIGN_HDF5_OBJECT_HEADER_H_
#define ESPALIER_FOREIGN_HDF5_OBJECT_HEADER_H_

#include <cstdint>
#include <vector>

#include "espalier/bytes.h"
#include "espalier/foreign/hdf5/reading.h"

namespace espalier {

enum class Hdf5MessageType : std::uint8_t {
  kNil = 0x00,
  kDataspace = 0x01,
  kLinkInfo = 0x02,
  kDatatype = 0x03,
  kOldFillValue = 0x04,
  kFillValue = 0x05,
  kLink = 0x06,
  kExternalFiles = 0x07,
  kLayout = 0x08,
  kGroupInfo = 0x0A,
  kFilters = 0x0B,
  kAttribute = 0x0C,
  kContinuation = 0x10,
  kSymbolTable = 0x11,
  kAttributeInfo = 0x15,
  kCacheImage = 0x18,
};

struct Hdf5Message {
  Hdf5MessageType type = Hdf5MessageType::kNil;
  /// The body stands in another object, and here is where.
  bool is_shared = false;
  ByteSpan body;
  std::uint64_t address = 0;  // of the body
  std::uint16_t order = 0;    // in which it was made, of some attributes
};

/// The messages of the object at `address`, of both versions of headers, without empty ones and
/// continuations.
std::vector<Hdf5Message> read_object_header(Hdf5Reading& reading, std::uint64_t address);

/// The first of a type; null if there is none.
const Hdf5Message* find_message(const std::vector<Hdf5Message>& messages, Hdf5MessageType type);

/// The body of a message of `type` that may be shared: `body` is that, or says which object has it.
ByteSpan shared_body(Hdf5Reading& reading, Hdf5MessageType type, bool is_shared, ByteSpan body);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_HDF5_OBJECT_HEADER_H_
