# The CUDA toolkit compiles kernels, and nothing else needs it: the driver is looked up when a program
# runs. Without the toolkit, or with TERRACE_CUDA off, the images of kernels are empty.

# Machine code for the devices in use, and code that the driver translates for later ones.
set(TERRACE_CUDA_TARGETS
  -gencode arch=compute_80,code=sm_80
  -gencode arch=compute_90,code=sm_90
  -gencode arch=compute_80,code=compute_80)

set(TERRACE_NVCC "")
if(TERRACE_CUDA)
  find_program(TERRACE_NVCC_PROGRAM nvcc HINTS /usr/local/cuda/bin)
endif()
if(TERRACE_CUDA AND TERRACE_NVCC_PROGRAM)
  # A toolkit that is too old for these devices, or for the compiler beside it, is as good as none.
  if(NOT DEFINED TERRACE_NVCC_WORKS)
    set(probe ${CMAKE_BINARY_DIR}/nvcc_probe)
    file(WRITE ${probe}.cu "extern \"C\" __global__ void probe() {}\n")
    execute_process(
      COMMAND ${TERRACE_NVCC_PROGRAM} -std=c++20 -fatbin ${TERRACE_CUDA_TARGETS} -o ${probe}.fatbin ${probe}.cu
      RESULT_VARIABLE failure OUTPUT_VARIABLE output ERROR_VARIABLE output)
    if(failure EQUAL 0)
      set(TERRACE_NVCC_WORKS ON CACHE INTERNAL "nvcc compiles what Terrace wants")
    else()
      set(TERRACE_NVCC_WORKS OFF CACHE INTERNAL "nvcc compiles what Terrace wants")
      message(STATUS "${TERRACE_NVCC_PROGRAM} cannot compile the kernels:\n${output}")
    endif()
  endif()
  if(TERRACE_NVCC_WORKS)
    set(TERRACE_NVCC ${TERRACE_NVCC_PROGRAM})
    get_filename_component(TERRACE_CUDA_ROOT ${TERRACE_NVCC} REALPATH)
    get_filename_component(TERRACE_CUDA_ROOT ${TERRACE_CUDA_ROOT}/../.. ABSOLUTE)
  endif()
endif()
if(TERRACE_NVCC)
  message(STATUS "CUDA kernels: compiled with ${TERRACE_NVCC}")
else()
  message(STATUS "CUDA kernels: not compiled")
endif()

# terrace_cuda_image(OUT file.cu FUNCTION "namespace::name")
# Sets OUT to a C++ source that defines FUNCTION() to return the compiled image of the kernels in
# file.cu as a terrace::cuda::KernelImage (core/cuda/kernel_image.h).
function(terrace_cuda_image out source function)
  get_filename_component(name ${source} NAME_WE)
  get_filename_component(source_path ${source} ABSOLUTE)
  set(image ${CMAKE_CURRENT_BINARY_DIR}/${name}.fatbin)
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/${name}_image.cc)
  # What is defined has to stand before the script's name.
  set(script ${CMAKE_SOURCE_DIR}/cmake/EmbedImage.cmake)
  set(embed ${CMAKE_COMMAND} -DIMAGE=${image} -DOUT=${generated} -DFUNCTION=${function})
  if(TERRACE_NVCC)
    add_custom_command(OUTPUT ${image}
      COMMAND ${TERRACE_NVCC} -std=c++20 -fatbin ${TERRACE_CUDA_TARGETS} -I${CMAKE_SOURCE_DIR}
        -MD -MF ${image}.d -o ${image} ${source_path}
      DEPENDS ${source_path}
      DEPFILE ${image}.d
      COMMENT "Compiling ${name}.cu"
      VERBATIM)
    add_custom_command(OUTPUT ${generated} COMMAND ${embed} -P ${script}
      DEPENDS ${image} ${script} VERBATIM)
  else()
    add_custom_command(OUTPUT ${generated} COMMAND ${embed} -DEMPTY=ON -P ${script}
      DEPENDS ${script} VERBATIM)
  endif()
  set(${out} ${generated} PARENT_SCOPE)
endfunction()
