#pragma once
/// Generates the pages about settings from the rows: docs/settings.md and man/main.cf.5.
///
/// A test compares the committed pages with these; the target `settings_pages_update` writes them anew.
#include <string>

namespace pen::config {

std::string settings_markdown();
std::string main_cf_man_page();

}  // namespace pen::config
