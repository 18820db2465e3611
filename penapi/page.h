#pragma once
/// The files of the status page, as they are in penapi/page; the build puts them into the program.
/// Pure; any thread.
#include <string_view>

namespace pen::api::page {

extern const std::string_view kHtml, kStyle, kScript, kIcon;

}  // namespace pen::api::page
