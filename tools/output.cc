#include "tools/output.h"

#include <sysexits.h>

#include <cstdio>
#include <cstdlib>

#include "lib/suite/service/command_line.h"

namespace pen::tools {

void die(const std::string& program, int code, const std::string& text) {
  std::fflush(stdout);
  std::fprintf(stderr, "%s: %s\n", program.c_str(), text.c_str());
  std::exit(service::own_status(code));
}

void print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) std::exit(service::own_status(EX_IOERR));
}

config::Config load_instance(const std::string& program, const std::string& directory) {
  auto config = config::load(config::config_directory(directory), {}, false);
  if (!config) die(program, EX_CONFIG, config.error().message());
  return *std::move(config);
}

}  // namespace pen::tools
