# The few functions with which every folder describes itself.
#
#   pen_library(NAME SOURCES a.cc … [BREAKABLE b.cc …] [HOT] [PUBLIC dep …] [PRIVATE dep …])   static library pen_NAME
#   pen_program(NAME SOURCES main.cc … DEPS dep … [TOOL])   program; TOOL installs to bin, else libexec/penstock
#   pen_tests(NAME SOURCES a_test.cc … DEPS dep … [BREAKABLE] [LONG] [APART case] [EACH folder/*.ext])
#       one Boost.Test executable, one ctest entry; APART: a second entry for the cases whose names begin so; EACH: an
#       entry NAME_FILE for each file, whose case in the suite NAME has its name
#   pen_fuzz(NAME SOURCES x_fuzz.cc DEPS dep …)   fuzz target of the program penfuzz, with its kept corpus
#       fuzz/corpus/NAME
#   pen_alone(x.cc …)   never compiled together with other files
#   pen_apart(x.cc y.cc …)   compiled together with one another, but with no other files
#
# HOT:       long tests and fuzz targets run it in loops.
# BREAKABLE: sources with deliberate mistakes (lib/base/breakage.h), and tests that switch them on: such tests link a
#            library whose sources were compiled with them, everything else one without.
# LONG:      tests that calculate for long: optimised, built in `suite` with the label "release"; with PEN_FEW they make
#            a fifth of the cuts.

option(PEN_WERROR "Warnings are errors; off where somebody builds packages with a compiler that warns of more" ON)

add_library(pen_options INTERFACE)
target_include_directories(pen_options INTERFACE ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR})
# The second list is kept at zero in every folder in place of a linter, which would take longer than the build.
target_compile_options(pen_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor
  $<$<BOOL:${PEN_WERROR}>:-Werror>
  $<$<CXX_COMPILER_ID:Clang>:-Wimplicit-fallthrough -Wunreachable-code -Wunreachable-code-return -Wextra-semi-stmt
    -Wunused-member-function -Wunused-macros -Wmissing-prototypes -Wmissing-variable-declarations
    -Wold-style-cast -Wcast-align -Wdouble-promotion -Wconditional-uninitialized -Wsuggest-override -Wcomma
    -Wzero-as-null-pointer-constant -Wheader-hygiene -Wrange-loop-analysis -Wdeprecated>)
target_compile_definitions(pen_options INTERFACE PEN_VERSION="${PROJECT_VERSION}")

set(PEN_SANITIZE "" CACHE STRING "Sanitizers to build with: address,undefined or thread")
if(PEN_SANITIZE)
  add_compile_options(-fsanitize=${PEN_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${PEN_SANITIZE})
  add_compile_definitions(PEN_SANITIZED=1)
endif()
# With sanitizers always.
option(PEN_FEW "Few cases of long tests, no benchmarks, optimised only where long tests loop" OFF)
if(PEN_SANITIZE)
  set(PEN_FEW ON)
endif()
if(PEN_FEW)
  add_compile_definitions(PEN_FEW=1)
endif()
# Hardening is the same in every build type, so that packagers who build RelWithDebInfo have it too, and what the tests
# run is what ships (docs/hardening.md has each flag's reason and what it costs). PEN_HARDEN=OFF is for measuring that
# cost.
option(PEN_HARDEN "Build with the compiler's and the linker's hardening" ON)
if(PEN_HARDEN)
  add_compile_definitions(_GLIBCXX_ASSERTIONS)
  add_compile_options(-fstack-protector-strong -fstack-clash-protection -Wformat=2 -Werror=format-security
    -fno-delete-null-pointer-checks)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # It has no way to say that local_text() takes a form of strftime(), as clang has (lib/base/date.h), and does not
    # see that a virtual function never returns.
    add_compile_options(-Wno-format-nonliteral -Wno-return-type)
  endif()
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

# Under AddressSanitizer, and in the gate, half of the time goes into compiling with optimisation what runs seldom.
function(pen_unoptimised_if_seldom target hot)
  if(PEN_FEW AND NOT PEN_SANITIZE MATCHES "thread" AND NOT hot)
    target_compile_options(${target} PRIVATE -O0)
  endif()
endfunction()

# With PEN_TOGETHER eighteen files compile at a time, which read the standard headers once; with PEN_PRECOMPILE these
# are read once per kind of target. The preset dev does without, where one file has changed and is compiled again;
# `./check full` builds `release` without, to show that every file includes what it uses. The gate, ./run and builds
# with sanitizers precompile.
option(PEN_TOGETHER "Compile eighteen files at a time" ON)
option(PEN_PRECOMPILE "Precompile the standard headers" OFF)

# Programs of a build with AddressSanitizer begin at a fixed address: nothing is relocated at each of the thousands of
# starts in a run of the tests, which are twice as quick (docs/hardening.md: what ships is position-independent).
function(pen_executable target)
  if(PEN_SANITIZE MATCHES "address")
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  endif()
endfunction()

# For the end of the folder, where the properties of its files are known. As UNITY_BUILD, whose files name what they
# include by the whole path.
function(pen_together target)
  get_target_property(sources ${target} SOURCES)
  set(left)
  set(batch)
  set(groups)
  set(number 0)
  macro(write_batch)
    if(batch)
      set(together ${CMAKE_CURRENT_BINARY_DIR}/together/${target}_${number}.cc)
      string(REPLACE ";" "" batch "${batch}")
      # What is right in a test, but not in what is included.
      foreach(ours header-hygiene missing-prototypes)
        if(target MATCHES "_tests$" AND ours STREQUAL header-hygiene OR target STREQUAL fuzz_targets)
          string(PREPEND batch "#ifdef __clang__\n#pragma clang diagnostic ignored \"-W${ours}\"\n#endif\n")
        endif()
      endforeach()
      file(CONFIGURE OUTPUT ${together} CONTENT "${batch}" @ONLY)
      list(APPEND left ${together})
      math(EXPR number "${number} + 1")
      set(batch)
    endif()
  endmacro()
  foreach(source ${sources})
    get_source_file_property(alone ${source} SKIP_UNITY_BUILD_INCLUSION)
    get_source_file_property(options ${source} COMPILE_OPTIONS)
    get_source_file_property(definitions ${source} COMPILE_DEFINITIONS)
    get_source_file_property(before ${source} PEN_BEFORE)
    get_source_file_property(apart ${source} PEN_APART)
    if(NOT source MATCHES "\\.cc$")  # objects
      list(APPEND left ${source})
      continue()
    endif()
    cmake_path(ABSOLUTE_PATH source NORMALIZE OUTPUT_VARIABLE path)
    if(before)
      set(options)
      set(definitions)
    else()
      set(before)
    endif()
    if(alone OR options OR definitions)
      list(APPEND left ${path})
      continue()
    endif()
    cmake_path(RELATIVE_PATH path BASE_DIRECTORY ${CMAKE_SOURCE_DIR})
    set(line "${before}#include \"${path}\"\n")
    if(apart)
      list(APPEND groups ${apart})
      list(APPEND group_${apart} "${line}")
      continue()
    endif()
    list(APPEND batch "${line}")
    list(LENGTH batch length)
    if(length EQUAL 18)
      write_batch()
    endif()
  endforeach()
  write_batch()
  list(REMOVE_DUPLICATES groups)
  foreach(apart ${groups})
    set(batch ${group_${apart}})
    write_batch()
  endforeach()
  set_target_properties(${target} PROPERTIES SOURCES "${left}")
endfunction()

function(pen_precompile target kind)
  if(PEN_TOGETHER)
    cmake_language(EVAL CODE "cmake_language(DEFER CALL pen_together ${target})")
  endif()
  if(NOT PEN_PRECOMPILE)
    return()
  endif()
  get_target_property(options ${target} COMPILE_OPTIONS)
  if(NOT options)
    set(options)
  endif()
  get_target_property(independent ${target} POSITION_INDEPENDENT_CODE)
  get_target_property(type ${target} TYPE)
  if(independent AND type STREQUAL EXECUTABLE)
    list(APPEND options -fPIE)
  endif()
  string(MD5 same "${kind} ${options} ${independent}")
  set(precompiled precompiled_${kind}_${same})
  # The headers are named by options, and the file that is compiled is one of them: so no path of this tree is written
  # into the result, and ccache shares it, and what is made with it, between clones.
  if(NOT TARGET ${precompiled})
    file(STRINGS ${CMAKE_SOURCE_DIR}/cmake/precompiled.txt headers REGEX "^[^#]")
    list(TRANSFORM headers PREPEND "SHELL:-include ")
    find_path(PEN_FMT_INCLUDE fmt/format.h REQUIRED)
    set(one ${PEN_FMT_INCLUDE}/fmt/format.h)
    set_source_files_properties(${one} PROPERTIES LANGUAGE CXX)
    add_library(${precompiled} OBJECT ${one})
    set_target_properties(${precompiled} PROPERTIES POSITION_INDEPENDENT_CODE ${independent})
    target_link_libraries(${precompiled} PRIVATE pen_options fmt::fmt)
    if(kind STREQUAL tests)
      list(APPEND headers "SHELL:-include boost/test/unit_test.hpp")
      target_link_libraries(${precompiled} PRIVATE Boost::unit_test_framework)
      target_compile_definitions(${precompiled} PRIVATE BOOST_TEST_DYN_LINK)
    endif()
    target_compile_options(${precompiled} PRIVATE ${options} ${headers} "SHELL:-Xclang -fno-pch-timestamp"
      -fpch-instantiate-templates -w "SHELL:-x c++-header")
    set(object ${CMAKE_CURRENT_BINARY_DIR}/CMakeFiles/${precompiled}.dir${one}.o)
    set_property(GLOBAL PROPERTY PEN_${precompiled} ${object})
  endif()
  get_property(object GLOBAL PROPERTY PEN_${precompiled})
  cmake_path(RELATIVE_PATH object BASE_DIRECTORY ${CMAKE_BINARY_DIR} OUTPUT_VARIABLE relative)
  target_compile_options(${target} PRIVATE "SHELL:-include-pch ${relative}")
  cmake_language(EVAL CODE "cmake_language(DEFER CALL pen_wait_for ${target} ${object})")
endfunction()

# For the end of the folder: no file of the target is compiled before the other file is made.
function(pen_wait_for target made)
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cc$")
  set_property(SOURCE ${sources} APPEND PROPERTY OBJECT_DEPENDS ${made})
endfunction()

# pen_alone(FILE…): these are never compiled with others, for they give names of their own to what another file of the
# folder calls so too ("redefinition of", "is ambiguous" in a build with PEN_TOGETHER).
function(pen_alone)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# pen_apart(FILE…): so these, but they get on with one another.
function(pen_apart)
  string(MD5 group "${ARGN}")
  set_source_files_properties(${ARGN} PROPERTIES PEN_APART ${group})
endfunction()

# What a release is made of, with what tests it from outside or runs for long: `suite`, the label "release".
add_custom_target(suite)
# What is installed: for packages.
add_custom_target(programs)

# For pen_library() alone, whose variables it sees.
function(pen_compiled target kind)
  add_library(${target} ${kind} ${ARGN})
  pen_unoptimised_if_seldom(${target} ${A_HOT})
  pen_precompile(${target} library)
  target_link_libraries(${target} PUBLIC pen_options ${public} PRIVATE ${private})
endfunction()

function(pen_library name)
  cmake_parse_arguments(A "HOT" "" "SOURCES;BREAKABLE;PUBLIC;PRIVATE" ${ARGN})
  pen_resolve(public ${A_PUBLIC})
  pen_resolve(private ${A_PRIVATE})
  if(NOT A_BREAKABLE)
    pen_compiled(pen_${name} STATIC ${A_SOURCES})
    return()
  endif()
  pen_compiled(pen_${name}_sound OBJECT ${A_SOURCES})
  pen_compiled(pen_${name}_breakable STATIC ${A_BREAKABLE} $<TARGET_OBJECTS:pen_${name}_sound>)
  target_compile_definitions(pen_${name}_breakable PUBLIC PEN_BREAKABLE)
  add_library(pen_${name} INTERFACE)
  if(PEN_SANITIZE)  # nothing of such a build ships
    target_link_libraries(pen_${name} INTERFACE pen_${name}_breakable)
    return()
  endif()
  pen_compiled(pen_${name}_shipped STATIC ${A_BREAKABLE} $<TARGET_OBJECTS:pen_${name}_sound>)
  # Of the executable that is linked, however far from here.
  target_link_libraries(pen_${name} INTERFACE
    $<IF:$<BOOL:$<TARGET_PROPERTY:PEN_BREAKABLE>>,pen_${name}_breakable,pen_${name}_shipped>)
endfunction()

function(pen_program name)
  cmake_parse_arguments(A "TOOL" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name}_program ${A_SOURCES} $<TARGET_OBJECTS:pen_standard_descriptors>)
  pen_executable(${name}_program)
  pen_resolve(deps ${A_DEPS})
  target_link_libraries(${name}_program PRIVATE pen_options ${deps})
  if(A_TOOL)
    set(folder bin)
  else()
    set(folder libexec/penstock)
  endif()
  pen_unoptimised_if_seldom(${name}_program FALSE)
  pen_precompile(${name}_program program)
  add_dependencies(suite ${name}_program)
  add_dependencies(programs ${name}_program)
  set_target_properties(${name}_program PROPERTIES
    OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/${folder})
  install(TARGETS ${name}_program RUNTIME DESTINATION ${folder})
endfunction()

function(pen_tests name)
  if(NOT BUILD_TESTING)
    return()
  endif()
  cmake_parse_arguments(A "BREAKABLE;LONG" "APART;EACH" "SOURCES;DEPS" ${ARGN})
  add_executable(${name}_tests ${A_SOURCES})
  pen_executable(${name}_tests)
  pen_resolve(deps ${A_DEPS})
  target_link_libraries(${name}_tests PRIVATE pen_options pen_testing ${deps})
  set_target_properties(${name}_tests PROPERTIES PEN_BREAKABLE ${A_BREAKABLE})
  # What is tested is optimised, watched by UBSan, and instrumented for fuzzing; the tests themselves need none of it,
  # and compile in half the time.
  if(NOT A_LONG)
    set(coverage inline-8bit-counters,indirect-calls,trace-cmp,pc-table,trace-div,trace-gep)
    target_compile_options(${name}_tests PRIVATE -O0 -U_FORTIFY_SOURCE
      $<$<BOOL:${PEN_FUZZ}>:-fno-sanitize-coverage=${coverage}>)
    if(PEN_SANITIZE MATCHES "undefined")
      target_compile_options(${name}_tests PRIVATE -fno-sanitize=undefined)
    endif()
  endif()
  pen_precompile(${name}_tests tests)
  set(entries ${name})
  set(rest)
  if(A_APART AND NOT PEN_FEW)  # the deliberate mistakes take minutes
    list(APPEND entries ${name}_${A_APART})
    add_test(NAME ${name}_${A_APART} COMMAND ${name}_tests --log_level=test_suite --run_test=*/${A_APART}*
      WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    set(rest --run_test=!*/${A_APART}*)
  endif()
  if(A_EACH)
    file(GLOB files CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/${A_EACH})
    foreach(file ${files})
      cmake_path(GET file STEM case)
      list(APPEND entries ${name}_${case})
      # Not test_suite: of the cases that are left out Boost 1.74 would print a reason that it has freed.
      add_test(NAME ${name}_${case} COMMAND ${name}_tests --log_level=message --run_test=${name}/${case}
        WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
    endforeach()
    set(rest --run_test=!${name})
  endif()
  add_test(NAME ${name} COMMAND ${name}_tests --log_level=test_suite ${rest} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
  # Five times and more of what each takes under sanitizers: it only ends what hangs. The case that hung is the last one
  # that the output says is entered.
  set_tests_properties(${entries} PROPERTIES TIMEOUT 900)
  if(PEN_SANITIZE MATCHES "address")  # memory that is used for the first time is what costs most on virtual machines
    set_tests_properties(${entries} PROPERTIES ENVIRONMENT
      "ASAN_OPTIONS=malloc_context_size=10:quarantine_size_mb=16")
  endif()
  if(A_LONG)
    # Many times as many cuts as under sanitizers; and they begin first, as they take long.
    add_dependencies(suite ${name}_tests)
    set_tests_properties(${entries} PROPERTIES COST 60 LABELS release TIMEOUT 2400)
  endif()
endfunction()

option(PEN_FUZZ "Build the fuzz targets with libFuzzer" OFF)
set(PEN_FUZZ_SECONDS 3 CACHE STRING "How long ctest runs each fuzz target")
function(pen_fuzz name)
  if(NOT PEN_FUZZ)
    return()
  endif()
  cmake_parse_arguments(A "" "" "SOURCES;DEPS" ${ARGN})
  # All targets are one program, fuzz/penfuzz.cc: so each entry point has a name of its own. The definition gives it
  # where the file is compiled alone, the text where it is compiled with others.
  set_source_files_properties(${A_SOURCES} PROPERTIES
    COMPILE_DEFINITIONS LLVMFuzzerTestOneInput=pen_fuzz_${name}
    COMPILE_OPTIONS -Wno-missing-prototypes  # libFuzzer has no header for what it calls
    PEN_BEFORE "#undef LLVMFuzzerTestOneInput\n#define LLVMFuzzerTestOneInput pen_fuzz_${name}\n")
  set_property(GLOBAL APPEND PROPERTY PEN_FUZZ_TARGETS ${name})
  set_property(GLOBAL APPEND PROPERTY PEN_FUZZ_SOURCES ${A_SOURCES})
  set_property(GLOBAL APPEND PROPERTY PEN_FUZZ_DEPS ${A_DEPS})
  add_test(NAME fuzz_${name} COMMAND ${CMAKE_SOURCE_DIR}/scripts/fuzz-one
    $<TARGET_FILE:penfuzz> ${name} ${PEN_FUZZ_SECONDS} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
endfunction()

# The program of all fuzz targets; after the last pen_fuzz().
function(pen_fuzz_program)
  if(NOT PEN_FUZZ)
    return()
  endif()
  get_property(targets GLOBAL PROPERTY PEN_FUZZ_TARGETS)
  get_property(sources GLOBAL PROPERTY PEN_FUZZ_SOURCES)
  get_property(deps GLOBAL PROPERTY PEN_FUZZ_DEPS)
  list(REMOVE_DUPLICATES deps)
  pen_resolve(deps ${deps})
  list(TRANSFORM targets REPLACE "(.+)" "PEN_FUZZ_TARGET(\\1)\n" OUTPUT_VARIABLE rows)
  string(REPLACE ";" "" rows "${rows}")
  file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/fuzz/targets.def CONTENT "${rows}" @ONLY)
  add_library(fuzz_targets OBJECT ${sources})
  pen_executable(fuzz_targets)
  target_link_libraries(fuzz_targets PUBLIC pen_options ${deps})
  pen_precompile(fuzz_targets program)
  add_executable(penfuzz penfuzz.cc)
  pen_executable(penfuzz)
  target_link_libraries(penfuzz PRIVATE pen_options fuzz_targets)
  target_link_options(penfuzz PRIVATE -fsanitize=fuzzer)
  set_source_files_properties(penfuzz.cc PROPERTIES COMPILE_OPTIONS -Wno-missing-prototypes)
  pen_precompile(penfuzz program)
endfunction()
