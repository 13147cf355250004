// Tables that a test can change.
#ifndef ESPALIER_TESTS_SUPPORT_TABLES_COPY_H_
#define ESPALIER_TESTS_SUPPORT_TABLES_COPY_H_

#include "espalier/detail/catalog.h"
#include "espalier/format/owned_tables.h"

namespace espalier::testing {

/// A copy of the tables that `t` refers to.
inline OwnedTables copy_of(const Tables& t) {
  return {.nodes = {t.nodes.begin(), t.nodes.end()},
          .tensors = {t.tensors.begin(), t.tensors.end()},
          .chunks = {t.chunks.begin(), t.chunks.end()},
          .shape_ends = {t.shape_ends.begin(), t.shape_ends.end()},
          .dims = {t.dims.begin(), t.dims.end()},
          .words = {t.words.begin(), t.words.end()},
          .text_ends = {t.text_ends.begin(), t.text_ends.end()},
          .text = {t.text.begin(), t.text.end()},
          .bytes = {t.bytes.begin(), t.bytes.end()},
          .labels = {t.labels.begin(), t.labels.end()},
          .dict_orders = {t.dict_orders.begin(), t.dict_orders.end()},
          .order = {t.order.begin(), t.order.end()},
          .axes = {t.axes.begin(), t.axes.end()},
          .axis_names = {t.axis_names.begin(), t.axis_names.end()},
          .blocks = {t.blocks.begin(), t.blocks.end()},
          .storages = {t.storages.begin(), t.storages.end()},
          .strides = {t.strides.begin(), t.strides.end()}};
}

}  // namespace espalier::testing

#endif  // ESPALIER_TESTS_SUPPORT_TABLES_COPY_H_
