"""What the paper compares itself with: an unregularised network, PBGNet, and plain REINFORCE."""
