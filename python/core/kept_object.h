// A Python object that native code keeps.
#ifndef ESPALIER_PYTHON_KEPT_OBJECT_H_
#define ESPALIER_PYTHON_KEPT_OBJECT_H_

#include <utility>

#include <nanobind/nanobind.h>

namespace espalier::python {

/// Lets its object go in any thread, with the GIL or without: the last owner of a source may be an
/// array, which any thread may let go. Make and use it with the GIL.
class KeptObject {
 public:
  explicit KeptObject(nanobind::object object) : object_(std::move(object)) {}
  ~KeptObject() {
    if (Py_IsInitialized() == 0) {
      object_.release();
      return;
    }
    const nanobind::gil_scoped_acquire acquired;
    object_.reset();
  }
  KeptObject(const KeptObject&) = delete;
  KeptObject& operator=(const KeptObject&) = delete;

  nanobind::handle get() const { return object_; }

 private:
  nanobind::object object_;
};

}  // namespace espalier::python

#endif  // ESPALIER_PYTHON_KEPT_OBJECT_H_
