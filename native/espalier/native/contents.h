// All that a checkpoint holds, as values: to edit it and save it again without losing anything.
#ifndef ESPALIER_NATIVE_CONTENTS_H_
#define ESPALIER_NATIVE_CONTENTS_H_

#include "espalier/codec/compression_level.h"
#include "espalier/tree/value.h"

namespace espalier {

/// The contents of a checkpoint. CheckpointFile::contents() makes them; save() and
/// save_safetensors() take them.
struct Contents {
  Value state;
  /// A dict without tensors.
  Value metadata = Value::dict();
  /// How to save the tensors: see SaveOptions. A file that has compressed chunks gives
  /// kFastCompression, because files do not say at what level they were saved. Tensors that stay as
  /// they are keep their compression: see SaveOptions::carry.
  int compression_level = kNoCompression;
};

}  // namespace espalier

#endif  // ESPALIER_NATIVE_CONTENTS_H_
