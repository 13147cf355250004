// The names under which the contents of a group stand in the tree, and their order.
#ifndef ESPALIER_FOREIGN_HDF5_CHILD_NAMES_H_
#define ESPALIER_FOREIGN_HDF5_CHILD_NAMES_H_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "espalier/foreign/common/layer_names.h"
#include "espalier/foreign/hdf5/file.h"

namespace espalier {

/// The contents of one group.
struct Hdf5Child {
  std::string_view name;
  /// The number of its link.
  std::uint32_t link = 0;
};

/// Keras writes the weights of layers into groups that h5py lists in an order of their names which
/// means nothing. Here they stand as the model has them:
///
/// - Numbers ("0", "1", "10") in their order.
/// - Groups in a group of layers of Keras 3 ("dense", "dense_1"), which are called after the
/// classes
///   of layers, under the names of the layers, if these differ; in the order of their numbers.
/// - What `layer_names` and `weight_names` of Keras 2 list, in that order.
///
/// All others stand as HDF5 has them: in the order in which they were made if the group tracks
/// that, or by their names.
class Hdf5ChildNames {
 public:
  /// `file` must be read, and outlive it. `keeps_keys`: all stand as HDF5 has them.
  Hdf5ChildNames(const Hdf5File& file, bool keeps_keys);

  std::vector<Hdf5Child> of(std::uint32_t group) const;

 private:
  void add_listed(std::uint32_t group, std::string_view attribute);
  std::uint64_t place(std::uint32_t group, const Hdf5Child& child) const;
  bool rename(std::uint32_t group, std::vector<GroupPart>& parts) const;

  const Hdf5File& file_;
  const bool keeps_keys_;
  // By object: where lists of names have it.
  std::map<std::uint32_t, std::uint64_t> places_;
};

}  // namespace espalier

#endif  // ESPALIER_FOREIGN_HDF5_CHILD_NAMES_H_
