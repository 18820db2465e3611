#include "tools/queue_client.h"
#include "tools/queue_tool.h"

int main(int argc, char** argv) {
  pen::tools::keep_group_for_the_socket("penqueue");
  return pen::service::run_tool<pen::tools::QueueTool>(argc, argv);
}
