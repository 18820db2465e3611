#include "lib/base/version.h"

#ifndef PEN_OTHER_VERSION
#define PEN_OTHER_VERSION PEN_VERSION
#endif

namespace pen {
namespace {
// With a mark in front, so that the version of a program that cannot be run is found in its file as well.
constexpr std::string_view kMark = "penstock-version ";
constexpr std::string_view kMarked = "penstock-version " PEN_OTHER_VERSION;
}  // namespace

std::string_view version() { return kMarked.substr(kMark.size()); }

}  // namespace pen
