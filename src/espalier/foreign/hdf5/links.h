// The links of a group: the names of what is in it.
#ifndef ESPALIER_FOREIGN_HDF5_LINKS_H_
#define ESPALIER_FOREIGN_HDF5_LINKS_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "espalier/foreign/hdf5/object_header.h"
#include "espalier/foreign/hdf5/reading.h"

namespace espalier {

struct Hdf5Link {
  enum class Kind : std::uint8_t { kHard, kSoft, kExternal, kUser };

  std::string_view name;
  Kind kind = Kind::kHard;
  std::uint64_t address = kHdf5Undefined;  // of a hard link
  std::string_view target;                 // of a soft one
  std::uint64_t order = 0;
};

/// The links of the group with these messages, in the order in which they were made if the group
/// tracks that, otherwise by their names. kForeignInvalid for a name that is there twice, is empty,
/// or has a slash.
std::vector<Hdf5Link> read_links(Hdf5Reading& reading, const std::vector<Hdf5Message>& messages);

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_HDF5_LINKS_H_
