/* A C program that uses all of the C interface. Argument: an empty folder. */
#include <espalier.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int failures = 0;

#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "line %d: not so: %s\n", __LINE__, #condition); \
      ++failures;                                                     \
    }                                                                 \
  } while (0)

/* The call succeeds. */
#define DO(call)                                                              \
  do {                                                                        \
    espalier_error* error = NULL;                                             \
    const espalier_status status = (call);                                    \
    if (status != ESPALIER_OK) {                                              \
      fprintf(stderr, "line %d: %s\n", __LINE__, espalier_error_text(error)); \
      ++failures;                                                             \
    }                                                                         \
    CHECK(error == NULL || status != ESPALIER_OK);                            \
    espalier_error_free(error);                                               \
  } while (0)

static int released = 0;
static void release(void* context) { released += *(int*)context; }

static int produce(void* context, uint64_t offset, void* out, size_t size) {
  (void)context;
  for (size_t i = 0; i < size; ++i) ((unsigned char*)out)[i] = (unsigned char)(offset + i);
  return 0;
}

static int fail_to_produce(void* context, uint64_t offset, void* out, size_t size) {
  (void)context, (void)offset, (void)out, (void)size;
  return 7;
}

static void count_progress(void* context, uint64_t done, uint64_t total) {
  CHECK(done <= total);
  ++*(int*)context;
}

static int is_text(espalier_text text, const char* expected) {
  return text.size == strlen(expected) && memcmp(text.data, expected, text.size) == 0;
}

static espalier_value* tensor(espalier_tensor_spec spec) {
  espalier_value* value = NULL;
  DO(espalier_new_tensor(&spec, &value, &error));
  return value;
}

static void add(espalier_value* dict, const char* key, espalier_value* child) {
  DO(espalier_add_text(dict, key, strlen(key), child, &error));
}

static const float weight[6] = {1, 2, 3, 4, 5, 6};
static int one = 1;

static espalier_value* make_state(void) {
  static const uint64_t matrix[2] = {2, 3};
  static const uint64_t long_row[1] = {3000000};
  static const char* const names[2] = {"out", "in"};
  static const unsigned char big[9] = {0, 0, 0, 0, 0, 0, 0, 0, 1};
  espalier_value* state = espalier_new_container(ESPALIER_DICT);

  espalier_tensor_spec borrowed = ESPALIER_INIT(borrowed);
  borrowed.dtype = espalier_dtype_from_name("f32");
  borrowed.rank = 2;
  borrowed.shape = matrix;
  borrowed.data = weight;
  borrowed.data_bytes = sizeof weight;
  borrowed.release = release;
  borrowed.context = &one;
  borrowed.axis_names = names;
  espalier_value* shared = tensor(borrowed);
  espalier_value* layer = espalier_new_container(ESPALIER_DICT);
  add(layer, "weight", espalier_value_copy(shared));
  add(layer, "tied", shared);
  espalier_value* layers = espalier_new_container(ESPALIER_DICT);
  add(layers, "8", layer);
  espalier_value* model = espalier_new_container(ESPALIER_DICT);
  add(model, "layers", layers);
  add(state, "model", model);

  espalier_tensor_spec produced = ESPALIER_INIT(produced);
  produced.dtype = espalier_dtype_from_name("u8");
  produced.rank = 1;
  produced.shape = long_row;
  produced.produce = produce;
  add(state, "made", tensor(produced));
  espalier_tensor_spec placeholder = ESPALIER_INIT(placeholder);
  placeholder.dtype = espalier_dtype_from_name("bf16");
  add(state, "placeholder", tensor(placeholder));

  espalier_value* scalars = espalier_new_container(ESPALIER_LIST);
  espalier_value* all[] = {espalier_new_null(),
                           espalier_new_bool(5),
                           espalier_new_int(-3),
                           espalier_new_bigint(big, sizeof big),
                           espalier_new_float(0.5),
                           espalier_new_complex(1, -2),
                           espalier_new_string("h\0i", 3),
                           espalier_new_bytes("\xFF", 1)};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) DO(espalier_add(scalars, all[i], &error));
  add(state, "scalars", scalars);

  espalier_value* optimizer = espalier_new_container(ESPALIER_RECORD);
  DO(espalier_set_label(optimizer, "Adam", 4, &error));
  add(optimizer, "step", espalier_new_int(100));
  add(state, "optimizer", optimizer);
  espalier_value* by_number = espalier_new_container(ESPALIER_DICT);
  DO(espalier_add_int(by_number, -7, espalier_new_null(), &error));
  add(state, "by number", by_number);
  return state;
}

static void check_nodes(const espalier_file* file) {
  espalier_node node = 0;
  espalier_node_info info = ESPALIER_INIT(info);
  DO(espalier_at(file, espalier_state(file), "optimizer", &node, &error));
  DO(espalier_get_node(file, node, &info, &error));
  CHECK(info.size == sizeof info && info.kind == ESPALIER_RECORD && info.child_count == 1);
  CHECK(info.has_label && is_text(info.label, "Adam"));
  espalier_key key = ESPALIER_INIT(key);
  DO(espalier_get_key(file, node, 0, &key, &error));
  CHECK(!key.is_integer && is_text(key.text, "step"));
  DO(espalier_get_node(file, info.first_child, &info, &error));
  CHECK(info.kind == ESPALIER_INT64 && info.integer == 100);
  DO(espalier_at(file, espalier_state(file), "by number", &node, &error));
  DO(espalier_get_key(file, node, 0, &key, &error));
  CHECK(key.is_integer && key.integer == -7);

  DO(espalier_at(file, espalier_state(file), "scalars", &node, &error));
  espalier_node_info list = ESPALIER_INIT(list);
  DO(espalier_get_node(file, node, &list, &error));
  CHECK(list.kind == ESPALIER_LIST && list.child_count == 8);
  espalier_node_info each[8];
  for (uint32_t i = 0; i < 8; ++i) {
    each[i].size = sizeof each[i];
    DO(espalier_get_node(file, list.first_child + i, &each[i], &error));
  }
  CHECK(each[0].kind == ESPALIER_NULL);
  CHECK(each[1].kind == ESPALIER_BOOL && each[1].integer == 1);
  CHECK(each[2].kind == ESPALIER_INT64 && each[2].integer == -3);
  CHECK(each[3].kind == ESPALIER_BIGINT && each[3].text.size == 9 && each[3].text.data[8] == 1);
  CHECK(each[4].kind == ESPALIER_FLOAT64 && each[4].real == 0.5);
  CHECK(each[5].kind == ESPALIER_COMPLEX128 && each[5].real == 1 && each[5].imaginary == -2);
  CHECK(each[6].kind == ESPALIER_STRING && each[6].text.size == 3 && each[6].text.data[2] == 'i');
  CHECK(each[7].kind == ESPALIER_BYTES && is_text(each[7].text, "\xFF"));

  espalier_list* found = NULL;
  DO(espalier_find(file, "**/weight", &found, &error));
  CHECK(espalier_list_size(found) == 1);
  CHECK(is_text(espalier_list_path(found, 0), "model/layers/8/weight"));
  espalier_list_free(found);
}

static void check_tensors(const espalier_file* file) {
  espalier_node node = 0;
  DO(espalier_at(file, espalier_state(file), "model.layers.8.weight", &node, &error));
  espalier_node tied = 0;
  DO(espalier_at(file, espalier_state(file), "model/layers/8/tied", &tied, &error));
  espalier_tensor_info info = ESPALIER_INIT(info);
  espalier_tensor_info other = ESPALIER_INIT(other);
  DO(espalier_get_tensor(file, node, &info, &error));
  DO(espalier_get_tensor(file, tied, &other, &error));
  CHECK(strcmp(espalier_dtype_name(info.dtype), "f32") == 0 &&
        espalier_dtype_bits(info.dtype) == 32);
  CHECK(info.rank == 2 && info.shape[0] == 2 && info.shape[1] == 3 && info.elements == 6);
  CHECK(info.bytes == 24 && !info.is_placeholder && info.has_hash);
  CHECK(info.number == other.number && memcmp(info.hash, other.hash, sizeof info.hash) == 0);

  float read[6] = {0};
  DO(espalier_read(file, node, NULL, 0, read, sizeof read, &error));
  CHECK(memcmp(read, weight, sizeof read) == 0);
  const espalier_slice slices[2] = {{1, 0, 1, 0, 1}, {0, 0, 0, 0, 2}};
  float part[2] = {0};
  DO(espalier_read(file, node, slices, 2, part, sizeof part, &error));
  CHECK(part[0] == 4 && part[1] == 6);
  CHECK(espalier_read(file, node, NULL, 0, read, 20, NULL) == ESPALIER_INVALID_ARGUMENT);
  CHECK(espalier_read(file, espalier_state(file), NULL, 0, read, 24, NULL) == ESPALIER_WRONG_KIND);

  espalier_view* view = NULL;
  DO(espalier_view_tensor(file, node, 0, &view, &error));
  CHECK(espalier_view_size(view) == 24 && memcmp(espalier_view_data(view), weight, 24) == 0);
  espalier_view_free(view);

  espalier_node made = 0;
  DO(espalier_at(file, espalier_state(file), "made", &made, &error));
  unsigned char* bytes = malloc(3000000);
  espalier_read_request requests[2] = {{made, NULL, 0, bytes, 3000000},
                                       {node, slices, 2, part, sizeof part}};
  DO(espalier_read_many(file, requests, 2, &error));
  int right = 1;
  for (size_t i = 0; i < 3000000; ++i) right &= bytes[i] == (unsigned char)i;
  CHECK(right);
  free(bytes);

  espalier_node placeholder = 0;
  DO(espalier_at(file, espalier_state(file), "placeholder", &placeholder, &error));
  DO(espalier_get_tensor(file, placeholder, &info, &error));
  CHECK(info.is_placeholder && info.rank == 0 && !info.has_hash);
}

static void check_errors(const espalier_file* file, const char* path) {
  espalier_error* error = NULL;
  espalier_node node = 0;
  CHECK(espalier_at(file, espalier_state(file), "model/nothing", &node, &error) ==
        ESPALIER_NOT_FOUND);
  CHECK(espalier_error_status(error) == ESPALIER_NOT_FOUND);
  CHECK(strcmp(espalier_error_code(error), "not_found") == 0);
  CHECK(strcmp(espalier_error_path(error), "model/nothing") == 0);
  CHECK(espalier_error_offset(error) == UINT64_MAX);
  CHECK(strstr(espalier_error_text(error), espalier_error_message(error)) != NULL);
  espalier_error_free(error);
  CHECK(espalier_at(file, espalier_state(file), "model/layers/8/tide", &node, &error) ==
        ESPALIER_NOT_FOUND);
  CHECK(strstr(espalier_error_message(error), "; did you mean 'model/layers/8/tied'?") != NULL);
  espalier_error_free(error);
  CHECK(espalier_at(file, 4000000000u, "", &node, NULL) == ESPALIER_INVALID_ARGUMENT);
  espalier_node_info info = ESPALIER_INIT(info);
  CHECK(espalier_get_node(file, 4000000000u, &info, NULL) == ESPALIER_INVALID_ARGUMENT);
  info.size = 0;
  CHECK(espalier_get_node(file, 0, &info, NULL) == ESPALIER_INVALID_ARGUMENT);
  espalier_key key = ESPALIER_INIT(key);
  CHECK(espalier_get_key(file, espalier_state(file), 6, &key, NULL) == ESPALIER_INVALID_ARGUMENT);
  CHECK(espalier_dtype_from_name("f33") == 0 && espalier_dtype_name(0) == NULL &&
        espalier_dtype_name(257) == NULL);
  CHECK(espalier_new_bigint("", 0) == NULL && espalier_new_container(ESPALIER_TENSOR) == NULL);

  espalier_file* none = (espalier_file*)&node;
  CHECK(espalier_open("/nowhere/at/all", NULL, &none, &error) != ESPALIER_OK && none == NULL);
  CHECK(strcmp(espalier_error_code(error), "file_not_found") == 0);
  espalier_error_free(error);

  /* What a failing call takes over is freed: the sanitizers and valgrind see it. */
  espalier_value* list = espalier_new_container(ESPALIER_LIST);
  CHECK(espalier_add_text(list, "a", 1, espalier_new_null(), NULL) == ESPALIER_WRONG_KIND);
  CHECK(espalier_add_int(list, 1, espalier_new_null(), NULL) == ESPALIER_WRONG_KIND);
  CHECK(espalier_add(list, NULL, NULL) == ESPALIER_OUT_OF_MEMORY);
  espalier_tensor_spec spec = ESPALIER_INIT(spec);
  spec.dtype = 99;
  spec.release = release;
  spec.context = &one;
  const int before = released;
  espalier_value* value = NULL;
  CHECK(espalier_new_tensor(&spec, &value, NULL) == ESPALIER_INVALID_ARGUMENT && value == NULL);
  CHECK(released == before + 1);
  /* A newer program, with a member that this library does not know. */
  struct {
    espalier_tensor_spec known;
    size_t unknown;
  } newer = {.known = spec, .unknown = 1};
  newer.known.size = sizeof newer;
  CHECK(espalier_new_tensor(&newer.known, &value, NULL) == ESPALIER_INVALID_ARGUMENT);
  CHECK(released == before + 2);
  released = before + 1;
  espalier_tensor_spec nothing = ESPALIER_INIT(nothing);
  nothing.dtype = espalier_dtype_from_name("u8");
  nothing.data_bytes = 4;
  CHECK(espalier_new_tensor(&nothing, &value, NULL) == ESPALIER_INVALID_ARGUMENT);
  CHECK(espalier_new_container((espalier_kind)-1) == NULL);
  spec.dtype = espalier_dtype_from_name("u8");
  spec.release = NULL;
  spec.produce = fail_to_produce;
  DO(espalier_add(list, tensor(spec), &error));
  CHECK(espalier_save(path, list, NULL, &error) != ESPALIER_OK);
  CHECK(strcmp(espalier_error_code(error), "io_error") == 0);
  CHECK(strstr(espalier_error_text(error), "failed with 7") != NULL);
  espalier_error_free(error);
  espalier_value_free(list);
}

/* A program of today with a library of tomorrow, and the other way round. */
static void check_sizes(const espalier_file* file) {
  struct {
    size_t size;
    uint32_t kind;
    uint32_t beyond;
  } older = {offsetof(espalier_node_info, child_count), 0, 77};
  DO(espalier_get_node(file, espalier_state(file), (espalier_node_info*)&older, &error));
  CHECK(older.kind == ESPALIER_DICT && older.beyond == 77);
  struct {
    espalier_node_info info;
    uint64_t unknown;
  } newer = {{.size = sizeof newer}, 99};
  DO(espalier_get_node(file, espalier_state(file), &newer.info, &error));
  CHECK(newer.info.kind == ESPALIER_DICT && newer.unknown == 0);
  struct {
    espalier_open_options options;
    uint64_t unknown;
  } future = {{.size = sizeof future}, 1};
  espalier_file* none = NULL;
  CHECK(espalier_open("x", &future.options, &none, NULL) == ESPALIER_INVALID_ARGUMENT);
}

/* Damage in a file is found when its tensors are saved again, unless they are taken over as they are. */
static void check_damage(const espalier_value* value, const char* path) {
  espalier_error* error = NULL;
  DO(espalier_save(path, value, NULL, &error));
  FILE* stream = fopen(path, "r+b");
  CHECK(stream != NULL && fseek(stream, -1, SEEK_END) == 0);
  const int last = fgetc(stream);
  CHECK(fseek(stream, -1, SEEK_END) == 0 && fputc(last ^ 1, stream) != EOF && fclose(stream) == 0);
  espalier_file* file = NULL;
  DO(espalier_open(path, NULL, &file, &error));
  espalier_value* lazy = NULL;
  DO(espalier_load(file, espalier_state(file), 1, &lazy, &error));
  espalier_close(file);
  CHECK(espalier_save(path, lazy, NULL, &error) != ESPALIER_OK);
  CHECK(strcmp(espalier_error_code(error), "chunk_corrupt") == 0);
  espalier_error_free(error);
  espalier_save_options options = ESPALIER_INIT(options);
  options.take_over = 1;
  DO(espalier_save(path, lazy, &options, &error));
  espalier_value_free(lazy);
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  char path[4096];
  char other[4096];
  char refused[4096];
  snprintf(path, sizeof path, "%s/state.espalier", argv[1]);
  snprintf(refused, sizeof refused, "%s/refused.espalier", argv[1]);
  snprintf(other, sizeof other, "%s/part.safetensors", argv[1]);
  CHECK(espalier_abi_version() == ESPALIER_ABI_VERSION);
  CHECK(strlen(espalier_version()) >= 5);

  espalier_value* state = make_state();
  espalier_value* metadata = espalier_new_container(ESPALIER_DICT);
  add(metadata, "epoch", espalier_new_int(3));
  int calls = 0;
  espalier_save_options options = ESPALIER_INIT(options);
  options.compression_level = 1;
  options.no_sync = 1;
  options.metadata = metadata;
  options.progress = count_progress;
  options.progress_context = &calls;
  DO(espalier_save(path, state, &options, &error));
  CHECK(calls > 0);
  options.no_replace = 1;
  CHECK(espalier_save(path, state, &options, NULL) != ESPALIER_OK);
  espalier_value_free(metadata);
  CHECK(released == 0);
  espalier_value_free(state);
  CHECK(released == 1);

  espalier_open_options how = ESPALIER_INIT(how);
  how.threads = 2;
  espalier_file* file = NULL;
  DO(espalier_open(path, &how, &file, &error));
  if (file == NULL) return 1;
  espalier_node epoch = 0;
  DO(espalier_at(file, espalier_metadata(file), "epoch", &epoch, &error));
  check_nodes(file);
  check_tensors(file);
  check_errors(file, refused);
  check_sizes(file);

  calls = 0;
  espalier_report* report = NULL;
  DO(espalier_verify(file, count_progress, &calls, &report, &error));
  CHECK(espalier_report_error_count(report) == 0 && espalier_report_error(report, 0) == NULL);
  CHECK(espalier_report_has_hashes(report) && espalier_report_checksums(report) == 0 && calls > 0);
  CHECK(espalier_report_verdict(report) == ESPALIER_VERDICT_OK);
  CHECK(espalier_report_missing_files(report) == 0 && espalier_report_missing_tensors(report) == 0 && espalier_report_unchecked(report) == 0);
  espalier_report_free(report);

  espalier_node layer = 0;
  DO(espalier_at(file, espalier_state(file), "model/layers/8", &layer, &error));
  espalier_value* part = NULL;
  DO(espalier_load(file, layer, 1, &part, &error));
  espalier_close(file);
  DO(espalier_erase(part, "tied", &error));
  DO(espalier_set(part, "bias", espalier_value_copy(part), &error));
  DO(espalier_set(part, "bias",
                  tensor((espalier_tensor_spec){sizeof(espalier_tensor_spec), 3, 0, NULL, "x", 1,
                                                NULL, NULL, NULL, NULL, 0, 0, NULL}),
                  &error));
  check_damage(part, refused);
  /* Names of axes have no place in a safetensors file. */
  espalier_error* error = NULL;
  CHECK(espalier_save_safetensors(other, part, NULL, &error) == 49);
  CHECK(strstr(espalier_error_text(error), "`unrepresentable`") != NULL);
  espalier_error_free(error);
  espalier_save_options lossy = ESPALIER_INIT(lossy);
  lossy.unrepresentable = 3;
  CHECK(espalier_save_safetensors(other, part, &lossy, NULL) == ESPALIER_INVALID_ARGUMENT);
  lossy.unrepresentable = ESPALIER_UNREPRESENTABLE_DROP;
  DO(espalier_save_safetensors(other, part, &lossy, &error));
  DO(espalier_erase(part, "weight", &error));
  DO(espalier_save_safetensors(other, part, NULL, &error));
  espalier_value_free(part);
  DO(espalier_open(other, NULL, &file, &error));
  if (file == NULL) return 1;
  espalier_list* tensors = NULL;
  DO(espalier_find(file, "*", &tensors, &error));
  CHECK(espalier_list_size(tensors) == 1);
  espalier_list_free(tensors);
  espalier_close(file);

  /* Damage is found and named. */
  FILE* stream = fopen(path, "r+b");
  fseek(stream, -1, SEEK_END);
  const int last = fgetc(stream);
  fseek(stream, -1, SEEK_END);
  fputc(last ^ 1, stream);
  fclose(stream);
  DO(espalier_open(path, NULL, &file, &error));
  DO(espalier_verify(file, NULL, NULL, &report, &error));
  CHECK(espalier_report_error_count(report) == 1);
  CHECK(espalier_report_verdict(report) == ESPALIER_VERDICT_DAMAGED);
  CHECK(strcmp(espalier_error_code(espalier_report_error(report, 0)), "chunk_corrupt") == 0);
  espalier_report_free(report);
  espalier_close(file);

  /* NULL is nothing to free. */
  espalier_error_free(NULL);
  espalier_close(NULL);
  espalier_list_free(NULL);
  espalier_view_free(NULL);
  espalier_report_free(NULL);
  espalier_value_free(NULL);
  if (failures == 0) puts("ok");
  return failures == 0 ? 0 : 1;
}
