// Tensors of other formats whose elements are not read. Apart from the verification, which a module
// for Espalier files alone has without it: in these, nothing is missing.
#ifndef ESPALIER_READ_MISSING_TENSORS_H_
#define ESPALIER_READ_MISSING_TENSORS_H_

#include <vector>

#include "espalier/checkpoint.h"
#include "espalier/error.h"

namespace espalier {

/// Tensors whose elements the opener did not find in a form that is read: placeholders with a loss
/// that says why (kElementsMissing). Not those whose bytes are damaged, which are an error of their
/// file.
std::vector<Error> missing_tensors(const Checkpoint& checkpoint);

/// Adds them to a report, after the missing files.
void add_missing_tensors(const Checkpoint& checkpoint, VerifyReport& report);

}  // namespace espalier

#endif  // ESPALIER_READ_MISSING_TENSORS_H_
