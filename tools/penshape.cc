#include "tools/queue_client.h"
#include "tools/shape_tool.h"

int main(int argc, char** argv) {
  pen::tools::keep_group_for_the_socket("penshape");
  return pen::service::run_tool<pen::tools::ShapeTool>(argc, argv);
}
