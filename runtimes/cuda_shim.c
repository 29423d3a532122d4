/* A CUDA that owns no device: enough of its runtime for ONNX Runtime to register the CUDA provider, partition a graph,
 * optimise it and create the session, where there is neither a GPU nor a library of NVIDIA.
 *
 * Device memory is host memory, handles are blank, no kernel ever runs. Whatever else the provider imports is
 * generated beside this file as a function that returns 0. Offsets are those of the CUDA 13 headers. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define API __attribute__((visibility("default")))

enum { SUCCESS = 0, OUT_OF_MEMORY = 2 };
enum { CUDA_VERSION = 13000, CUDNN_VERSION = 90000, ALIGNMENT = 256, HANDLE_BYTES = 64, POINTER_ATTRIBUTES_BYTES = 88 };
enum { MULTIPROCESSORS = 132, SHARED_MEMORY_PER_BLOCK = 49152, SHARED_MEMORY_PER_BLOCK_OPTIN = 232448 };
static const size_t DEVICE_BYTES = (size_t)64 << 30;

/* cudaDeviceAttr */
enum { ATTR_MULTIPROCESSORS = 16, ATTR_MAJOR = 75, ATTR_MINOR = 76, ATTR_SHARED_MEMORY_OPTIN = 97 };

/* struct cudaDeviceProp: where each field that is filled in begins */
enum {
    PROP_BYTES = 1008,
    PROP_TOTAL_MEMORY = 288,
    PROP_SHARED_PER_BLOCK = 296,
    PROP_REGISTERS_PER_BLOCK = 304,
    PROP_WARP_SIZE = 308,
    PROP_THREADS_PER_BLOCK = 320,
    PROP_THREADS_DIM = 324,
    PROP_GRID_SIZE = 336,
    PROP_MAJOR = 360,
    PROP_MINOR = 364,
    PROP_MULTIPROCESSORS = 384,
    PROP_THREADS_PER_MULTIPROCESSOR = 604,
    PROP_SHARED_PER_MULTIPROCESSOR = 624,
    PROP_REGISTERS_PER_MULTIPROCESSOR = 632,
    PROP_SHARED_PER_BLOCK_OPTIN = 672
};

static int capability(void) {
    const char *asked = getenv("ONNXPARITY_COMPUTE_CAPABILITY"); /* ten times the number: 90 for 9.0 */
    return asked ? atoi(asked) : 90;
}

static void set_int(void *base, size_t at, int value) { memcpy((char *)base + at, &value, sizeof value); }
static void set_size(void *base, size_t at, size_t value) { memcpy((char *)base + at, &value, sizeof value); }

static int blank_handle(void **out) {
    *out = calloc(1, HANDLE_BYTES);
    return *out ? SUCCESS : OUT_OF_MEMORY;
}

static int host_memory(void **out, size_t bytes) {
    *out = aligned_alloc(ALIGNMENT, (bytes / ALIGNMENT + 1) * ALIGNMENT);
    return *out ? SUCCESS : OUT_OF_MEMORY;
}

/* the device */
API int cudaGetDevice(int *device) { *device = 0; return SUCCESS; }
API int cudaGetDeviceCount(int *count) { *count = 1; return SUCCESS; }
API int cudaDriverGetVersion(int *version) { *version = CUDA_VERSION; return SUCCESS; }
API int cudaRuntimeGetVersion(int *version) { *version = CUDA_VERSION; return SUCCESS; }
API int cudaMemGetInfo(size_t *unused, size_t *total) { *unused = *total = DEVICE_BYTES; return SUCCESS; }

API int cudaDeviceGetAttribute(int *value, int attribute, int device) {
    (void)device;
    switch (attribute) {
    case ATTR_MAJOR: *value = capability() / 10; break;
    case ATTR_MINOR: *value = capability() % 10; break;
    case ATTR_MULTIPROCESSORS: *value = MULTIPROCESSORS; break;
    case ATTR_SHARED_MEMORY_OPTIN: *value = SHARED_MEMORY_PER_BLOCK_OPTIN; break;
    default: *value = 0;
    }
    return SUCCESS;
}

API int cudaGetDeviceProperties(void *prop, int device) {
    (void)device;
    memset(prop, 0, PROP_BYTES);
    strcpy(prop, "dry run");
    set_size(prop, PROP_TOTAL_MEMORY, DEVICE_BYTES);
    set_size(prop, PROP_SHARED_PER_BLOCK, SHARED_MEMORY_PER_BLOCK);
    set_int(prop, PROP_REGISTERS_PER_BLOCK, 65536);
    set_int(prop, PROP_WARP_SIZE, 32);
    set_int(prop, PROP_THREADS_PER_BLOCK, 1024);
    set_int(prop, PROP_THREADS_DIM, 1024);
    set_int(prop, PROP_THREADS_DIM + 4, 1024);
    set_int(prop, PROP_THREADS_DIM + 8, 64);
    set_int(prop, PROP_GRID_SIZE, 2147483647);
    set_int(prop, PROP_GRID_SIZE + 4, 65535);
    set_int(prop, PROP_GRID_SIZE + 8, 65535);
    set_int(prop, PROP_MAJOR, capability() / 10);
    set_int(prop, PROP_MINOR, capability() % 10);
    set_int(prop, PROP_MULTIPROCESSORS, MULTIPROCESSORS);
    set_int(prop, PROP_THREADS_PER_MULTIPROCESSOR, 2048);
    set_size(prop, PROP_SHARED_PER_MULTIPROCESSOR, SHARED_MEMORY_PER_BLOCK_OPTIN + 1024);
    set_int(prop, PROP_REGISTERS_PER_MULTIPROCESSOR, 65536);
    set_size(prop, PROP_SHARED_PER_BLOCK_OPTIN, SHARED_MEMORY_PER_BLOCK_OPTIN);
    return SUCCESS;
}

/* memory */
API int cudaMalloc(void **out, size_t bytes) { return host_memory(out, bytes); }
API int cudaMallocHost(void **out, size_t bytes) { return host_memory(out, bytes); }
API int cudaHostAlloc(void **out, size_t bytes, unsigned flags) { (void)flags; return host_memory(out, bytes); }
API int cudaFree(void *memory) { free(memory); return SUCCESS; }
API int cudaFreeHost(void *memory) { free(memory); return SUCCESS; }

API int cudaMemcpy(void *to, const void *from, size_t bytes, int kind) {
    (void)kind;
    memcpy(to, from, bytes);
    return SUCCESS;
}
API int cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, void *stream) {
    (void)stream;
    return cudaMemcpy(to, from, bytes, kind);
}
API int cudaMemset(void *memory, int value, size_t bytes) { memset(memory, value, bytes); return SUCCESS; }
API int cudaMemsetAsync(void *memory, int value, size_t bytes, void *stream) {
    (void)stream;
    return cudaMemset(memory, value, bytes);
}
API int cudaPointerGetAttributes(void *attributes, const void *memory) {
    (void)memory;
    memset(attributes, 0, POINTER_ATTRIBUTES_BYTES);
    set_int(attributes, 0, 2); /* cudaMemoryTypeDevice */
    return SUCCESS;
}

/* handles */
API int cudaStreamCreate(void **out) { return blank_handle(out); }
API int cudaStreamCreateWithFlags(void **out, unsigned flags) { (void)flags; return blank_handle(out); }
API int cudaEventCreate(void **out) { return blank_handle(out); }
API int cudaEventCreateWithFlags(void **out, unsigned flags) { (void)flags; return blank_handle(out); }
API int cublasCreate_v2(void **out) { return blank_handle(out); }
API int cublasLtCreate(void **out) { return blank_handle(out); }
API int cudnnCreate(void **out) { return blank_handle(out); }

/* what is asked while the library loads */
API size_t cudnnGetVersion(void) { return CUDNN_VERSION; }
API size_t cudnnGetCudartVersion(void) { return CUDA_VERSION; }
API const char *cudnnGetErrorString(int error) { (void)error; return "dry run"; }
API const char *cudaGetErrorString(int error) { (void)error; return "dry run"; }
API const char *cudaGetErrorName(int error) { (void)error; return "dry run"; }
API void **__cudaRegisterFatBinary(void *image) { static void *slot[64]; (void)image; return slot; }
