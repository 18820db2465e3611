/// settings_pages markdown|man: prints one of the pages made from the settings (a build-time tool that is not
/// installed).
#include <cstdio>
#include <string_view>

#include "lib/config/pages.h"

int main(int argc, char** argv) {
  const std::string_view page = argc == 2 ? argv[1] : "";
  if (page != "markdown" && page != "man") {
    std::fputs("usage: settings_pages markdown|man\n", stderr);
    return 64;
  }
  const std::string text = page == "man" ? pen::config::main_cf_man_page() : pen::config::settings_markdown();
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0 ? 0 : 74;
}
