#include <string_view>

#include "tools/instance_tool.h"
#include "tools/multi_tool.h"

namespace {

std::string_view called(const char* path) {
  const std::string_view name = path;
  return name.substr(name.rfind('/') + 1);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace pen;
  if (argc > 0 && called(argv[0]) == "postmulti") return service::run_tool<tools::MultiTool>(argc, argv);
  return service::run_tool<tools::InstanceTool>(argc, argv);
}
