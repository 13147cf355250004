/* A C program that opens and saves in memory, by functions of its own, in the background and in folders; that gives up, sets limits, and maps
 * keys. Argument: an empty folder. */
#include <espalier.h>
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

/* The call gives this status. */
#define GIVES(expected, call)                                                            \
  do {                                                                                   \
    espalier_error* error = NULL;                                                        \
    const espalier_status status = (call);                                               \
    if (status != (expected)) {                                                          \
      fprintf(stderr, "line %d: %d: %s\n", __LINE__, status, espalier_error_text(error)); \
      ++failures;                                                                        \
    }                                                                                    \
    espalier_error_free(error);                                                          \
  } while (0)
#define DO(call) GIVES(ESPALIER_OK, call)

static const float weight[6] = {1, 2, 3, 4, 5, 6};

static espalier_value* state_of(int64_t step) {
  static const uint64_t shape[2] = {2, 3};
  espalier_tensor_spec spec = ESPALIER_INIT(spec);
  spec.dtype = espalier_dtype_from_name("f32");
  spec.rank = 2;
  spec.shape = shape;
  spec.data = weight;
  spec.data_bytes = sizeof weight;
  espalier_value* tensor = NULL;
  DO(espalier_new_tensor(&spec, &tensor, &error));
  espalier_value* state = espalier_new_container(ESPALIER_DICT);
  DO(espalier_add_text(state, "w", 1, tensor, &error));
  DO(espalier_add_text(state, "step", 4, espalier_new_int(step), &error));
  return state;
}

static int64_t step_of(const espalier_file* file) {
  espalier_node node = 0;
  espalier_node_info info = ESPALIER_INIT(info);
  DO(espalier_at(file, espalier_state(file), "step", &node, &error));
  DO(espalier_get_node(file, node, &info, &error));
  return info.integer;
}

static void check_weight(const espalier_file* file, const char* path) {
  espalier_node node = 0;
  float read[6] = {0};
  DO(espalier_at(file, espalier_state(file), path, &node, &error));
  DO(espalier_read(file, node, NULL, 0, read, sizeof read, &error));
  CHECK(memcmp(read, weight, sizeof weight) == 0);
}

/* A file in memory that functions read and write. */
struct blob {
  unsigned char bytes[1 << 16];
  uint64_t size;
  uint64_t reserved;
  int commits;
  int releases;
  int fails;
};

static int blob_read(void* context, uint64_t offset, void* out, size_t size) {
  const struct blob* blob = context;
  if (blob->fails || offset + size > blob->size) return 5;
  memcpy(out, blob->bytes + offset, size);
  return 0;
}

static int blob_reserve(void* context, uint64_t bytes) {
  ((struct blob*)context)->reserved = bytes;
  return 0;
}

static int blob_write(void* context, uint64_t offset, const void* data, size_t size) {
  struct blob* blob = context;
  if (blob->fails || offset + size > sizeof blob->bytes) return 7;
  memcpy(blob->bytes + offset, data, size);
  if (offset + size > blob->size) blob->size = offset + size;
  return 0;
}

static int blob_commit(void* context) { return ++((struct blob*)context)->commits > 1; }
static void blob_release(void* context) { ++((struct blob*)context)->releases; }

static void use_callbacks(const espalier_value* state) {
  static struct blob blob;
  espalier_sink sink = ESPALIER_INIT(sink);
  sink.reserve = blob_reserve;
  sink.write = blob_write;
  sink.commit = blob_commit;
  sink.context = &blob;
  DO(espalier_save_sink(&sink, state, NULL, &error));
  CHECK(blob.commits == 1 && blob.reserved == blob.size && blob.size > 128);

  espalier_source source = ESPALIER_INIT(source);
  source.bytes = blob.size;
  source.read = blob_read;
  source.release = blob_release;
  source.context = &blob;
  espalier_file* file = NULL;
  DO(espalier_open_source(&source, NULL, &file, &error));
  check_weight(file, "w");
  CHECK(blob.releases == 0);
  blob.fails = 1;
  espalier_node node = 0;
  float read[6];
  DO(espalier_at(file, espalier_state(file), "w", &node, &error));
  GIVES(ESPALIER_IO_ERROR, espalier_read(file, node, NULL, 0, read, sizeof read, &error));
  espalier_close(file);
  CHECK(blob.releases == 1);

  /* What fails releases, too, and a save without its last step is none. */
  GIVES(ESPALIER_IO_ERROR, espalier_open_source(&source, NULL, &file, &error));
  CHECK(file == NULL && blob.releases == 2);
  GIVES(ESPALIER_IO_ERROR, espalier_save_sink(&sink, state, NULL, &error));
  CHECK(blob.commits == 1);
  source.read = NULL;
  GIVES(ESPALIER_INVALID_ARGUMENT, espalier_open_source(&source, NULL, &file, &error));
  CHECK(blob.releases == 3);
}

static void use_memory(const espalier_value* state) {
  espalier_view* saved = NULL;
  DO(espalier_save_memory(state, NULL, &saved, &error));
  static struct blob count;
  espalier_source source = ESPALIER_INIT(source);
  source.data = espalier_view_data(saved);
  source.bytes = espalier_view_size(saved);
  source.release = blob_release;
  source.context = &count;
  espalier_file* file = NULL;
  DO(espalier_open_source(&source, NULL, &file, &error));
  check_weight(file, "w");
  espalier_close(file);
  CHECK(count.releases == 1);

  espalier_limits limits = ESPALIER_INIT(limits);
  limits.nodes = 2;
  espalier_open_options how = ESPALIER_INIT(how);
  how.limits = &limits;
  GIVES(15, espalier_open_source(&source, &how, &file, &error));
  limits.nodes = 0; /* the default */
  limits.depth = UINT64_MAX;
  DO(espalier_open_source(&source, &how, &file, &error));
  espalier_close(file);
  espalier_view_free(saved);
}

/* The program's threads (here its own alone), and its memory. */
struct resources {
  int runs;
  int lent;
};

static void run_here(void* context, uint32_t count, espalier_work work, void* work_context) {
  ++((struct resources*)context)->runs;
  for (uint32_t i = 0; i <= count; ++i) work(work_context);
}

static char lent[4096];
static void* lend(void* context, size_t bytes, size_t alignment) {
  if (bytes > sizeof lent - alignment) return NULL;
  ++((struct resources*)context)->lent;
  return lent + (alignment - (uintptr_t)lent % alignment) % alignment;
}
static void take_back(void* context, void* memory, size_t bytes, size_t alignment) {
  CHECK(memory != NULL && bytes <= sizeof lent && alignment >= 8);
  --((struct resources*)context)->lent;
}

static void use_resources(const char* path, const espalier_value* state) {
  static struct resources resources;
  espalier_save_options how = ESPALIER_INIT(how);
  how.threads = 3;
  how.run = run_here;
  how.run_context = &resources;
  how.compression_level = 1;
  /* Several chunks, which are compressed in parallel. */
  static uint32_t large[1 << 20];
  for (uint32_t i = 0; i < 1 << 20; ++i) large[i] = i * 2654435761u ^ i >> 3;
  static const uint64_t shape[1] = {1 << 20};
  espalier_tensor_spec spec = ESPALIER_INIT(spec);
  spec.dtype = espalier_dtype_from_name("u32");
  spec.rank = 1;
  spec.shape = shape;
  spec.data = large;
  spec.data_bytes = sizeof large;
  espalier_value* tensor = NULL;
  DO(espalier_new_tensor(&spec, &tensor, &error));
  espalier_value* both = espalier_new_container(ESPALIER_DICT);
  DO(espalier_add_text(both, "large", 5, tensor, &error));
  DO(espalier_add_text(both, "a", 1, espalier_value_copy(state), &error));
  DO(espalier_save(path, both, &how, &error));
  espalier_value_free(both);
  CHECK(resources.runs == 1);

  espalier_open_options open = ESPALIER_INIT(open);
  open.threads = 3;
  open.run = run_here;
  open.run_context = &resources;
  open.no_mmap = 1;
  open.allocate = lend;
  open.deallocate = take_back;
  open.memory_context = &resources;
  espalier_file* file = NULL;
  DO(espalier_open(path, &open, &file, &error));
  check_weight(file, "a/w");
  espalier_report* report = NULL;
  DO(espalier_verify(file, NULL, NULL, &report, &error));
  CHECK(espalier_report_error_count(report) == 0 && resources.runs >= 2);
  espalier_report_free(report);
  espalier_node node = 0;
  espalier_view* view = NULL;
  DO(espalier_at(file, espalier_state(file), "a/w", &node, &error));
  DO(espalier_view_tensor(file, node, 0, &view, &error));
  CHECK(resources.lent == 1 && (const char*)espalier_view_data(view) < lent + sizeof lent);
  espalier_close(file);
  espalier_view_free(view);
  CHECK(resources.lent == 0);
}

static void use_cancel(const char* path, const espalier_value* state) {
  espalier_cancel* cancel = espalier_new_cancel();
  espalier_save_options how = ESPALIER_INIT(how);
  how.cancel = cancel;
  how.memory_bytes = 64 << 20;
  DO(espalier_save(path, state, &how, &error));
  espalier_cancel_set(cancel);
  GIVES(ESPALIER_CANCELLED, espalier_save(path, state, &how, &error));
  espalier_file* file = NULL;
  DO(espalier_open(path, NULL, &file, &error));
  espalier_read_options read = ESPALIER_INIT(read);
  read.cancel = cancel;
  espalier_report* report = NULL;
  GIVES(ESPALIER_CANCELLED, espalier_verify_with(file, &read, &report, &error));
  espalier_value* value = NULL;
  GIVES(ESPALIER_CANCELLED, espalier_load_with(file, espalier_state(file), &read, &value, &error));
  float out[6];
  espalier_read_request request = {0, NULL, 0, out, sizeof out};
  DO(espalier_at(file, espalier_state(file), "w", &request.node, &error));
  GIVES(ESPALIER_CANCELLED, espalier_read_many_with(file, &request, 1, &read, &error));
  read.cancel = NULL;
  DO(espalier_read_many_with(file, &request, 1, &read, &error));
  CHECK(out[5] == 6);
  DO(espalier_load_with(file, espalier_state(file), &read, &value, &error));
  espalier_value_free(value);
  espalier_close(file);
  espalier_cancel_free(cancel);
}

static int find_base(void* context, const char* name, espalier_source* out) {
  const espalier_view* base = *(const espalier_view**)context;
  if (base == NULL || strcmp(name, "base.espalier") != 0) return ESPALIER_FILE_MISSING;
  out->bytes = espalier_view_size(base);
  out->data = espalier_view_data(base);
  return 0;
}

/* A file that refers to another one, which is found by a function. */
static void use_bases(const char* folder) {
  static unsigned char elements[3 << 20];
  for (size_t i = 0; i < sizeof elements; ++i) elements[i] = (unsigned char)(i * i >> 7);
  static const uint64_t shape[1] = {sizeof elements};
  espalier_tensor_spec spec = ESPALIER_INIT(spec);
  spec.dtype = espalier_dtype_from_name("u8");
  spec.rank = 1;
  spec.shape = shape;
  spec.data = elements;
  spec.data_bytes = sizeof elements;
  espalier_value* state = espalier_new_container(ESPALIER_DICT);
  espalier_value* tensor = NULL;
  DO(espalier_new_tensor(&spec, &tensor, &error));
  DO(espalier_add_text(state, "w", 1, tensor, &error));
  char path[4096];
  snprintf(path, sizeof path, "%s/base.espalier", folder);
  DO(espalier_save(path, state, NULL, &error));
  espalier_view* base = NULL;
  DO(espalier_save_memory(state, NULL, &base, &error));
  espalier_file* file = NULL;
  DO(espalier_open(path, NULL, &file, &error));
  const espalier_save_base bases[1] = {{file, "base.espalier"}};
  espalier_save_options how = ESPALIER_INIT(how);
  how.bases = bases;
  how.base_count = 1;
  espalier_view* saved = NULL;
  DO(espalier_save_memory(state, &how, &saved, &error));
  CHECK(espalier_view_size(saved) < 1 << 16);
  espalier_close(file);
  espalier_value_free(state);

  espalier_source source = ESPALIER_INIT(source);
  source.data = espalier_view_data(saved);
  source.bytes = espalier_view_size(saved);
  espalier_open_options open = ESPALIER_INIT(open);
  open.sibling = find_base;
  const espalier_view* found = NULL;
  open.sibling_context = &found;
  espalier_node node = 0;
  espalier_view* view = NULL;
  for (int is_there = 0; is_there < 2; ++is_there) {
    found = is_there ? base : NULL;
    DO(espalier_open_source(&source, &open, &file, &error));
    DO(espalier_at(file, espalier_state(file), "w", &node, &error));
    GIVES(is_there ? ESPALIER_OK : ESPALIER_FILE_MISSING, espalier_view_tensor(file, node, 0, &view, &error));
    CHECK(!is_there || memcmp(espalier_view_data(view), elements, sizeof elements) == 0);
    espalier_view_free(view);
    espalier_close(file);
  }
  espalier_view_free(base);
  espalier_view_free(saved);
}

static void use_folder(const char* folder) {
  char path[4096];
  snprintf(path, sizeof path, "%s/runs", folder);
  espalier_dir_options how = ESPALIER_INIT(how);
  how.keep_last = 2;
  how.best_metric = "loss";
  espalier_dir* dir = NULL;
  DO(espalier_dir_open(path, &how, &dir, &error));
  uint64_t step = 77;
  espalier_file* file = NULL;
  DO(espalier_dir_latest(dir, NULL, &step, &file, &error));
  CHECK(file == NULL && step == 77);
  for (uint64_t i = 1; i <= 4; ++i) {
    espalier_value* state = state_of((int64_t)i);
    espalier_value* metadata = espalier_new_container(ESPALIER_DICT);
    DO(espalier_add_text(metadata, "loss", 4, espalier_new_float(i == 1 ? 0.5 : 1.0), &error));
    espalier_save_options save = ESPALIER_INIT(save);
    save.metadata = metadata;
    save.no_sync = 1;
    if (i % 2 != 0) {
      DO(espalier_dir_save(dir, i, state, &save, &error));
    } else {
      espalier_saving* saving = NULL;
      DO(espalier_dir_save_async(dir, i, state, 0, &save, &saving, &error));
      DO(espalier_saving_wait(saving, &error));
      CHECK(espalier_saving_is_done(saving));
      uint64_t done = 0;
      uint64_t total = 0;
      espalier_saving_progress(saving, &done, &total);
      CHECK(done == total && total > 0);
      espalier_saving_cancel(saving); /* too late to change anything */
      DO(espalier_saving_wait(saving, &error));
      espalier_saving_free(saving);
    }
    espalier_value_free(metadata);
    espalier_value_free(state);
  }
  uint64_t steps[2] = {0};
  size_t count = 0;
  DO(espalier_dir_steps(dir, steps, 2, &count, &error));
  CHECK(count == 3 && steps[0] == 1 && steps[1] == 3);
  DO(espalier_dir_latest(dir, NULL, &step, &file, &error));
  CHECK(step == 4 && step_of(file) == 4);
  espalier_close(file);
  char small[6];
  const size_t size = espalier_dir_path(dir, 4, path, sizeof path);
  CHECK(size == strlen(path) && espalier_dir_path(dir, 4, small, sizeof small) == size && strlen(small) == 5);
  espalier_report* problems = NULL;
  DO(espalier_dir_problems(dir, &problems, &error));
  CHECK(espalier_report_error_count(problems) == 0);
  espalier_report_free(problems);
  DO(espalier_dir_lock(dir, &error));
  espalier_dir_unlock(dir);
  espalier_dir_free(dir);
  how.best_metric = "a//b";
  GIVES(40, espalier_dir_open(folder, &how, &dir, &error));
}

static void use_background(const char* path, const espalier_value* state) {
  espalier_saving* saving = NULL;
  DO(espalier_save_async(path, state, 1, NULL, &saving, &error));
  DO(espalier_saving_wait(saving, &error));
  espalier_saving_free(saving);
  DO(espalier_save_async("/none/there", state, 0, NULL, &saving, &error));
  CHECK(espalier_saving_wait(saving, NULL) != ESPALIER_OK);
  espalier_saving_free(saving);
}

static void use_map(const espalier_value* state) {
  espalier_view* saved = NULL;
  DO(espalier_save_memory(state, NULL, &saved, &error));
  espalier_source source = ESPALIER_INIT(source);
  source.data = espalier_view_data(saved);
  source.bytes = espalier_view_size(saved);
  espalier_file* file = NULL;
  DO(espalier_open_source(&source, NULL, &file, &error));
  const char* map = "{\"espalier_map\": 1, \"name\": \"t\", \"rest\": \"keep\", \"rules\": [\"w [a b] <-> linear.weight [a b]\"]}";
  espalier_file* mapped = NULL;
  DO(espalier_map(file, map, strlen(map), NULL, &mapped, &error));
  check_weight(mapped, "linear.weight");
  espalier_map_options how = ESPALIER_INIT(how);
  static const char* const names[1] = {"a"};
  static const double numbers[1] = {5};
  how.names = names;
  how.numbers = numbers;
  how.number_count = 1;
  espalier_file* wrong = NULL;
  GIVES(56, espalier_map(file, map, strlen(map), &how, &wrong, &error));
  GIVES(52, espalier_map(file, "{", 1, NULL, &wrong, &error));
  how.number_count = 0;
  how.reverse = 1;
  DO(espalier_map(mapped, map, strlen(map), &how, &wrong, &error));
  check_weight(wrong, "w");
  espalier_close(wrong);
  espalier_close(mapped);
  espalier_close(file);
  espalier_view_free(saved);
  CHECK(espalier_known_map("llama-meta").size > 100 && espalier_known_map("none").data == NULL);
}

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  char path[4096];
  snprintf(path, sizeof path, "%s/state.espalier", argv[1]);
  espalier_value* state = state_of(7);
  use_callbacks(state);
  use_memory(state);
  use_resources(path, state);
  use_cancel(path, state);
  use_background(path, state);
  use_bases(argv[1]);
  use_folder(argv[1]);
  use_map(state);
  espalier_value_free(state);
  puts(failures == 0 ? "ok" : "failed");
  return failures == 0 ? 0 : 1;
}
