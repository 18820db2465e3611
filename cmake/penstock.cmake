# The few functions with which every folder describes itself.
#
#   pen_library(NAME SOURCES a.cc … [PUBLIC dep …] [PRIVATE dep …])   static library pen_NAME
#   pen_program(NAME SOURCES main.cc … DEPS dep … [TOOL])             program; TOOL installs to bin, else libexec/penstock
#   pen_tests(NAME SOURCES a_test.cc … DEPS dep … [APART case])       one Boost.Test executable, one ctest entry; and one
#                                                                     for the cases whose names begin so
#   pen_fuzz(NAME SOURCES x_fuzz.cc DEPS dep …)                       fuzz target with its kept corpus fuzz/corpus/NAME

add_library(pen_options INTERFACE)
target_include_directories(pen_options INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
target_compile_options(pen_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Werror)
target_compile_definitions(pen_options INTERFACE PEN_VERSION="${PROJECT_VERSION}")

set(PEN_SANITIZE "" CACHE STRING "Sanitizers to build with: address,undefined or thread")
if(PEN_SANITIZE)
  add_compile_options(-fsanitize=${PEN_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${PEN_SANITIZE})
  add_compile_definitions(PEN_SANITIZED=1)
endif()
# Hardening is the same in every build type, so that packagers who build RelWithDebInfo have it too, and what the tests
# run is what ships (docs/hardening.md has each flag's reason and what it costs). PEN_HARDEN=OFF is for measuring that cost.
option(PEN_HARDEN "Build with the compiler's and the linker's hardening" ON)
if(PEN_HARDEN)
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
  add_compile_options(-fstack-protector-strong -fstack-clash-protection -Wformat=2 -Werror=format-security
    -fno-delete-null-pointer-checks)
  if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|i.86")
    add_compile_options(-fcf-protection=full)
    add_link_options(-Wl,-z,shstk)
  elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64")
    add_compile_options(-mbranch-protection=standard)
  endif()
  if(NOT PEN_SANITIZE)
    # Sanitizers must see what these would hide: values that nobody set, and sums that wrap. Fortify needs an optimiser.
    add_compile_options(-ftrivial-auto-var-init=zero -fno-strict-overflow
      $<$<NOT:$<CONFIG:Debug>>:-U_FORTIFY_SOURCE> $<$<NOT:$<CONFIG:Debug>>:-D_FORTIFY_SOURCE=3>)
  endif()
  add_link_options(-Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack -Wl,-z,separate-code)
endif()

function(pen_resolve out)
  set(result)
  foreach(dep ${ARGN})
    if(TARGET pen_${dep})
      list(APPEND result pen_${dep})
    else()
      list(APPEND result ${dep})
    endif()
  endforeach()
  set(${out} ${result} PARENT_SCOPE)
endfunction()

# Under AddressSanitizer half of the time goes into compiling with optimisation what runs seldom: only what the long
# tests and the fuzz targets run in loops is worth it.
function(pen_unoptimised_if_seldom target name)
  if(PEN_SANITIZE MATCHES "address" AND NOT name MATCHES
      "^(base|testing|mail|async|net|map|ipc|queue_log|spool|destdb|scheduler|simulation|smtp_engine|config)$")
    target_compile_options(${target} PRIVATE -O0)
  endif()
endfunction()

# With PEN_PRECOMPILE the standard headers are read once per kind of target instead of once per file: a fifth of the time.
# ./check builds one of its two trees so; the other shows that every file includes what it uses.
option(PEN_PRECOMPILE "Precompile the standard headers" OFF)
function(pen_precompile target kind)
  if(NOT PEN_PRECOMPILE)
    return()
  endif()
  get_target_property(type ${target} TYPE)
  get_target_property(options ${target} COMPILE_OPTIONS)
  if(NOT options)
    set(options)
  endif()
  string(MD5 same "${kind} ${options}")
  set(precompiled precompiled_${kind}_${same})
  if(NOT TARGET ${precompiled})
    add_library(${precompiled} OBJECT ${CMAKE_SOURCE_DIR}/cmake/precompiled.cc)
    target_compile_options(${precompiled} PRIVATE ${options} $<$<STREQUAL:${type},EXECUTABLE>:-fPIE>)
    target_link_libraries(${precompiled} PRIVATE pen_options fmt::fmt)
    if(kind STREQUAL tests)
      target_link_libraries(${precompiled} PRIVATE Boost::unit_test_framework)
      target_compile_definitions(${precompiled} PRIVATE BOOST_TEST_DYN_LINK)
    endif()
    target_precompile_headers(${precompiled} PRIVATE ${CMAKE_SOURCE_DIR}/cmake/precompiled.h)
  endif()
  target_precompile_headers(${target} REUSE_FROM ${precompiled})
endfunction()

# What a release is made of, with what tests it from outside or runs for long: `suite`, the label "release".
add_custom_target(suite)

function(pen_library name)
  cmake_parse_arguments(A "" "" "SOURCES;PUBLIC;PRIVATE" ${ARGN})
  add_library(pen_${name} STATIC ${A_SOURCES})
  pen_unoptimised_if_seldom(pen_${name} ${name})
  pen_precompile(pen_${name} library)
  pen_resolve(public ${A_PUBLIC})
  pen_resolve(private ${A_PRIVATE})
  target_link_libraries(pen_${name} PUBLIC pen_options ${public} PRIVATE ${private})
endfunction()

function(pen_program name)
  cmake_parse_arguments(A "TOOL" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name}_program ${A_SOURCES})
  pen_resolve(deps ${A_DEPS})
  target_link_libraries(${name}_program PRIVATE pen_options ${deps})
  if(A_TOOL)
    set(folder bin)
  else()
    set(folder libexec/penstock)
  endif()
  pen_unoptimised_if_seldom(${name}_program ${name})
  pen_precompile(${name}_program program)
  add_dependencies(suite ${name}_program)
  set_target_properties(${name}_program PROPERTIES
    OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/${folder})
  install(TARGETS ${name}_program RUNTIME DESTINATION ${folder})
endfunction()

function(pen_tests name)
  if(NOT BUILD_TESTING)
    return()
  endif()
  cmake_parse_arguments(A "" "APART" "SOURCES;DEPS" ${ARGN})
  add_executable(${name}_tests ${A_SOURCES})
  pen_resolve(deps ${A_DEPS})
  target_link_libraries(${name}_tests PRIVATE pen_options pen_testing ${deps})
  # What is tested is optimised, and instrumented for fuzzing; the tests themselves need neither, and compile in half
  # the time. But for the crash tests, which do the most work themselves.
  if(NOT name MATCHES "crash")
    target_compile_options(${name}_tests PRIVATE -O0 -U_FORTIFY_SOURCE
      $<$<BOOL:${PEN_FUZZ}>:-fno-sanitize-coverage=inline-8bit-counters,indirect-calls,trace-cmp,pc-table,trace-div,trace-gep>)
  endif()
  pen_precompile(${name}_tests tests)
  set(entries ${name})
  set(rest)
  if(A_APART AND NOT PEN_SANITIZE)  # sanitizers leave the deliberate mistakes out
    list(APPEND entries ${name}_${A_APART})
    add_test(NAME ${name}_${A_APART} COMMAND ${name}_tests --log_level=test_suite --run_test=*/${A_APART}*
      WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set(rest --run_test=!*/${A_APART}*)
  endif()
  add_test(NAME ${name} COMMAND ${name}_tests --log_level=test_suite ${rest} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  # Long enough for the crash tests under sanitizers on a busy machine: it only ends what hangs.
  set_tests_properties(${entries} PROPERTIES TIMEOUT 2400)
  if(name MATCHES "crash")
    # Many times as many cuts as under sanitizers; and they begin first, as they take long.
    add_dependencies(suite ${name}_tests)
    set_tests_properties(${entries} PROPERTIES COST 60 LABELS release)
  endif()
endfunction()

option(PEN_FUZZ "Build the fuzz targets with libFuzzer" OFF)
function(pen_fuzz name)
  if(NOT PEN_FUZZ)
    return()
  endif()
  cmake_parse_arguments(A "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name}_fuzz ${A_SOURCES})
  pen_resolve(deps ${A_DEPS})
  target_link_libraries(${name}_fuzz PRIVATE pen_options ${deps})
  target_link_options(${name}_fuzz PRIVATE -fsanitize=fuzzer)
  pen_precompile(${name}_fuzz program)
  set(PEN_FUZZ_SECONDS 5 CACHE STRING "How long ctest runs each fuzz target")
  add_test(NAME fuzz_${name} COMMAND ${CMAKE_SOURCE_DIR}/scripts/fuzz-one
    $<TARGET_FILE:${name}_fuzz> ${CMAKE_SOURCE_DIR}/fuzz/corpus/${name} ${PEN_FUZZ_SECONDS})
endfunction()
