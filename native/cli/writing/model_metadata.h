// The metadata of a model in several files, for files that are written of it.
#ifndef ESPALIER_CLI_WRITING_MODEL_METADATA_H_
#define ESPALIER_CLI_WRITING_MODEL_METADATA_H_

#include "espalier/value.h"

namespace espalier::cli {

struct ModelMetadata {
  /// What each file gets.
  Value of_each_file;
  /// What the index gets beside its sizes: texts, numbers and booleans.
  Value of_index = Value::dict();
};

/// Metadata as those of a model in several files are opened, by the names of its files and `index`,
/// for such a model: what all of its files have alike, {"format": "pt"}, and what the index has.
/// Its sizes are made anew. Others stay as they are, and so do these if anything would be lost.
ModelMetadata model_metadata(Value metadata);

}  // namespace espalier::cli

#endif  // ESPALIER_CLI_WRITING_MODEL_METADATA_H_
